//! The cryptography of tokens: `ring`, which TLS uses as well.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use signature::{Signer, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| signer(*algorithm, key),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the provider for this process. Later calls change nothing.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

fn signer(algorithm: Algorithm, key: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    if algorithm != Algorithm::HS256 || key.family() != AlgorithmFamily::Hmac {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Hmac(hmac::Key::new(
        hmac::HMAC_SHA256,
        key.as_bytes(),
    ))))
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    // A public key must never serve as a shared secret.
    if algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    let bytes = || key.try_get_as_bytes().map(<[u8]>::to_vec);
    let public = |algorithm_of_key, algorithm| {
        let key = bytes()?;
        Ok::<Box<dyn JwtVerifier>, Error>(Box::new(PublicKey {
            verification: algorithm_of_key,
            key,
            algorithm,
        }))
    };
    match algorithm {
        Algorithm::HS256 => Ok(Box::new(Hmac(hmac::Key::new(hmac::HMAC_SHA256, &bytes()?)))),
        Algorithm::RS256 => match key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => Ok(Box::new(RsaKey {
                n: n.clone(),
                e: e.clone(),
            })),
            DecodingKeyKind::SecretOrDer(_) => Err(ErrorKind::InvalidKeyFormat.into()),
        },
        Algorithm::ES256 => public(&ECDSA_P256_SHA256_FIXED, Algorithm::ES256),
        Algorithm::EdDSA => public(&ED25519, Algorithm::EdDSA),
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

struct Hmac(hmac::Key);

impl Signer<Vec<u8>> for Hmac {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(hmac::sign(&self.0, message).as_ref().to_vec())
    }
}

impl JwtSigner for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl Verifier<Vec<u8>> for Hmac {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        hmac::verify(&self.0, message, signature).map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Hmac {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

struct PublicKey {
    verification: &'static dyn VerificationAlgorithm,
    key: Vec<u8>,
    algorithm: Algorithm,
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = UnparsedPublicKey::new(self.verification, &self.key);
        key.verify(message, signature)
            .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

struct RsaKey {
    n: Vec<u8>,
    e: Vec<u8>,
}

impl Verifier<Vec<u8>> for RsaKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let key = RsaPublicKeyComponents {
            n: &self.n,
            e: &self.e,
        };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature)
            .map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for RsaKey {
    fn algorithm(&self) -> Algorithm {
        Algorithm::RS256
    }
}
