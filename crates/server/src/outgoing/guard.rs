//! Which addresses the service connects to: public ones, and those of hosts that its settings name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Hosts that may have private addresses and be asked without TLS.
#[derive(Debug)]
pub(super) struct PermittedHosts {
    hosts: Vec<String>,
}

impl PermittedHosts {
    pub(super) fn new(hosts: &[String]) -> Self {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase());
        Self {
            hosts: hosts.collect(),
        }
    }

    fn names(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known == host)
    }

    /// Whether a URL may be asked. An address in it is judged here, a name once it is resolved.
    pub(super) fn permits(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let host = host.trim_matches(['[', ']']);
        if self.names(host) {
            return matches!(url.scheme(), "http" | "https");
        }
        let is_public = host.parse::<IpAddr>().is_ok_and(is_public);
        let is_name = host.parse::<IpAddr>().is_err();
        url.scheme() == "https" && (is_name || is_public)
    }
}

/// Resolves names, and keeps the addresses that may be connected to.
pub(super) struct GuardedResolver {
    permitted: Arc<PermittedHosts>,
}

impl GuardedResolver {
    pub(super) fn new(permitted: Arc<PermittedHosts>) -> Self {
        Self { permitted }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let permitted = Arc::clone(&self.permitted);
        Box::pin(async move {
            let host = name.as_str().to_ascii_lowercase();
            let found = tokio::net::lookup_host((host.as_str(), 0)).await?;
            let is_own = permitted.names(&host);
            let kept: Vec<SocketAddr> = found
                .filter(|address| is_own || is_public(address.ip()))
                .collect();
            if kept.is_empty() {
                return Err("the name has no address that may be connected to".into());
            }
            Ok(Box::new(kept.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is one of the public network.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation();
    // "This" network, carrier-grade NAT, protocol assignments, 6to4 relays, benchmarks, reserved.
    let is_reserved = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !is_special && !is_reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(mapped) = address.to_ipv4_mapped() {
        return is_public_v4(mapped);
    }
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // NAT64 and 6to4 lead to the IPv4 address in them.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            is_public_v4(embedded(high, low))
        }
        // Documentation, and protocol assignments with Teredo.
        [0x2001, 0xdb8 | 0..=0x1ff, ..] | [0x3fff, 0..=0xfff, ..] => false,
        // Global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_network_are_public() {
        for public in [
            "1.1.1.1",
            "93.184.215.14",
            "2606:4700::1111",
            "64:ff9b::101:101",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn a_url_is_public_and_encrypted_or_of_a_host_that_the_settings_name() {
        let permitted = PermittedHosts::new(&["Keys.Intern".into(), "127.0.0.1".into()]);
        let permits = |url: &str| permitted.permits(&Url::parse(url).unwrap());
        for url in [
            "https://login.example.com/keys",
            "https://1.1.1.1/",
            "http://keys.intern/",
            "http://127.0.0.1:7/",
        ] {
            assert!(permits(url), "{url}");
        }
        for url in [
            "http://login.example.com/keys",
            "https://127.0.0.2/",
            "https://[::1]/",
            // Other spellings of 127.0.0.2.
            "https://2130706434/",
            "https://0x7f.2/",
            "https://[::ffff:7f00:2]/",
            "file:///etc/passwd",
            "ftp://keys.intern/",
        ] {
            assert!(!permits(url), "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_of_a_private_address_is_not_resolved_unless_the_settings_name_it() {
        let resolver =
            |hosts: &[String]| GuardedResolver::new(Arc::new(PermittedHosts::new(hosts)));
        let localhost = || "localhost".parse::<Name>().unwrap();
        assert!(resolver(&[]).resolve(localhost()).await.is_err());
        let own = resolver(&["localhost".into()]).resolve(localhost()).await;
        assert!(own.unwrap().all(|address| address.ip().is_loopback()));
    }
}
