//! A macro for stores that delegate most calls to another one: a test implements only the methods it
//! changes.

/// Inside an `impl Store`, delegates the named methods to the store in a field: `delegate!(inner: submit claim
/// watch);`. `rest` stands for all methods that no test store changes.
#[macro_export]
macro_rules! delegate {
    ($field:ident: $($method:ident)+) => { $($crate::delegate!(@ $field $method);)+ };
    (@ $field:ident now) => {
        fn now(&self) -> $crate::store::StoreFuture<jiff::Timestamp> {
            self.$field.now()
        }
    };
    (@ $field:ident submit) => {
        fn submit(&self, task: $crate::store::NewTask) -> $crate::store::StoreFuture<$crate::store::Submission> {
            self.$field.submit(task)
        }
    };
    (@ $field:ident claim) => {
        fn claim(&self, claim: $crate::store::Claim) -> $crate::store::StoreFuture<$crate::store::Claimed> {
            self.$field.claim(claim)
        }
    };
    (@ $field:ident append) => {
        fn append(&self, fence: $crate::store::Fence, batch: std::sync::Arc<$crate::store::Batch>) -> $crate::store::StoreFuture<u64> {
            self.$field.append(fence, batch)
        }
    };
    (@ $field:ident renew) => {
        fn renew(&self, fences: Vec<$crate::store::Fence>, lease: std::time::Duration) -> $crate::store::StoreFuture<Vec<$crate::store::RenewedLease>> {
            self.$field.renew(fences, lease)
        }
    };
    (@ $field:ident signal) => {
        fn signal(&self, viewer: &$crate::store::Viewer, signal: $crate::store::NewSignal) -> $crate::store::StoreFuture<$crate::store::SignalReceipt> {
            self.$field.signal(viewer, signal)
        }
    };
    (@ $field:ident task) => {
        fn task(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid) -> $crate::store::StoreFuture<Option<$crate::store::TaskRecord>> {
            self.$field.task(viewer, task)
        }
    };
    (@ $field:ident newest) => {
        fn newest(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid) -> $crate::store::StoreFuture<Option<($crate::store::TaskRecord, $crate::store::Entry)>> {
            self.$field.newest(viewer, task)
        }
    };
    (@ $field:ident load) => {
        fn load(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid, from: u64) -> $crate::store::StoreFuture<Option<$crate::store::LoadedTask>> {
            self.$field.load(viewer, task, from)
        }
    };
    (@ $field:ident conversation) => {
        fn conversation(&self, viewer: &$crate::store::Viewer, id: uuid::Uuid, before: Option<uuid::Uuid>, limit: usize) -> $crate::store::StoreFuture<Option<$crate::store::ConversationRecord>> {
            self.$field.conversation(viewer, id, before, limit)
        }
    };
    (@ $field:ident rest) => {
        fn entries(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid, seqs: std::ops::RangeInclusive<u64>) -> $crate::store::StoreFuture<Vec<$crate::store::Entry>> {
            self.$field.entries(viewer, task, seqs)
        }

        fn events(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid, seqs: std::ops::RangeInclusive<u64>) -> $crate::store::StoreFuture<Vec<$crate::store::JournalEvent>> {
            self.$field.events(viewer, task, seqs)
        }

        fn signals(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid) -> $crate::store::StoreFuture<Vec<$crate::store::Signal>> {
            self.$field.signals(viewer, task)
        }

        fn query(&self, viewer: &$crate::store::Viewer, filter: $crate::store::Filter, page: $crate::store::Page) -> $crate::store::StoreFuture<$crate::store::TaskPage> {
            self.$field.query(viewer, filter, page)
        }

        fn count(&self, viewer: &$crate::store::Viewer, filter: $crate::store::Filter, at_most: usize) -> $crate::store::StoreFuture<usize> {
            self.$field.count(viewer, filter, at_most)
        }

        fn conversations(
            &self,
            viewer: &$crate::store::Viewer,
            after: Option<$crate::store::ConversationCursor>,
            limit: usize,
        ) -> $crate::store::StoreFuture<Vec<$crate::store::ConversationRecord>> {
            self.$field.conversations(viewer, after, limit)
        }

        fn delete_conversation(&self, viewer: &$crate::store::Viewer, id: uuid::Uuid) -> $crate::store::StoreFuture<Option<$crate::store::Deletion>> {
            self.$field.delete_conversation(viewer, id)
        }

        fn definition(&self, hash: &str) -> $crate::store::StoreFuture<Option<$crate::store::Definition>> {
            self.$field.definition(hash)
        }

        fn put_blob(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid, blob: $crate::store::Blob) -> $crate::store::StoreFuture<bool> {
            self.$field.put_blob(viewer, task, blob)
        }

        fn blob(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid, hash: $crate::BlobHash, range: std::ops::Range<u64>) -> $crate::store::StoreFuture<Option<$crate::store::BlobRange>> {
            self.$field.blob(viewer, task, hash, range)
        }

        fn blobs(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid) -> $crate::store::StoreFuture<Vec<$crate::store::BlobInfo>> {
            self.$field.blobs(viewer, task)
        }

        fn take_out(&self, viewer: &$crate::store::Viewer, task: uuid::Uuid) -> $crate::store::StoreFuture<Option<$crate::store::Archive>> {
            self.$field.take_out(viewer, task)
        }

        fn trust(&self, hash: &str) -> $crate::store::StoreFuture<bool> {
            self.$field.trust(hash)
        }

        fn bring_in(&self, archive: $crate::store::Archive, definition: Option<$crate::store::Definition>) -> $crate::store::StoreFuture<$crate::store::Imported> {
            self.$field.bring_in(archive, definition)
        }

        fn sweep(&self, sweep: $crate::store::Sweep) -> $crate::store::StoreFuture<$crate::store::SweepReport> {
            self.$field.sweep(sweep)
        }

        fn watch(&self, scope: $crate::store::Scope) -> $crate::store::Hint {
            self.$field.watch(scope)
        }
    };
}
