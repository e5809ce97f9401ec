//! Opens a store's file where it cannot be written.
//!
//! SQLite reads a file with a write-ahead log through an index, the `-shm` file. If there is none and none can be
//! created, the file can only be read as immutable, without the log.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::{Access, BUSY_TIMEOUT, schema};
use crate::error::StoreError;

/// A read connection, and how to open more.
pub(super) fn open(path: &Path) -> Result<(Connection, Access), StoreError> {
    let mut failure = match checked(path, Access::Read) {
        Err(StoreError::Unavailable(failure)) => failure,
        Err(StoreError::ReadOnly) => StoreError::ReadOnly.to_string(),
        opened => return opened,
    };
    // A writer always has a log, so without a log there is none.
    let log = super::lost::beside(path, "-wal");
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let _ = write!(
            failure,
            "; {} holds changes that cannot be read without writing: copy both to where that can be done",
            log.display()
        );
        return Err(StoreError::Unavailable(failure));
    }
    checked(path, Access::ReadUnchanging)
}

fn checked(path: &Path, access: Access) -> Result<(Connection, Access), StoreError> {
    let connection = connect(path, access)?;
    schema::check(&connection)?;
    Ok((connection, access))
}

pub(super) fn connect(path: &Path, access: Access) -> Result<Connection, StoreError> {
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/.-_".contains(byte) {
            address.push(char::from(*byte));
        } else {
            let _ = write!(address, "%{byte:02X}");
        }
    }
    address.push_str("?mode=ro");
    if access == Access::ReadUnchanging {
        address.push_str("&immutable=1");
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(address, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
