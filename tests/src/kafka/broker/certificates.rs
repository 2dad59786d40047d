//! An authority of the tests' own, and what it signed: made by `openssl` for each broker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Files in PEM format.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority that signed all others.
    pub authority: PathBuf,
    /// The broker's key and its certificates, in one file, as Java wants it.
    pub(super) broker: PathBuf,
    /// A client's certificate; its name is that of the first of [`super::USERS`].
    pub client: PathBuf,
    /// Its key.
    pub client_key: PathBuf,
    /// The same key, encrypted with [`super::PASSWORD`].
    pub encrypted_client_key: PathBuf,
    /// An authority that signed nothing of the above.
    pub stranger: PathBuf,
}

impl Certificates {
    /// Makes them in the folder `dir`, for a broker on 127.0.0.1.
    pub(super) fn make(dir: &Path) -> Result<Certificates, String> {
        authority(dir, "authority")?;
        authority(dir, "stranger")?;
        signed(dir, "broker", "/CN=127.0.0.1")?;
        signed(dir, "client", &format!("/CN={}", super::USERS[0]))?;
        openssl(
            dir,
            &[
                "pkcs8",
                "-topk8",
                "-in",
                "client.key",
                "-out",
                "encrypted.key",
                "-passout",
                &format!("pass:{}", super::PASSWORD),
            ],
        )?;
        let read = |name: &str| {
            fs::read_to_string(dir.join(name)).map_err(|error| format!("{name}: {error}"))
        };
        let broker = [
            read("broker.key")?,
            read("broker.pem")?,
            read("authority.pem")?,
        ]
        .concat();
        let keystore = dir.join("keystore.pem");
        fs::write(&keystore, broker).map_err(|error| format!("{}: {error}", keystore.display()))?;
        Ok(Certificates {
            authority: dir.join("authority.pem"),
            broker: keystore,
            client: dir.join("client.pem"),
            client_key: dir.join("client.key"),
            encrypted_client_key: dir.join("encrypted.key"),
            stranger: dir.join("stranger.pem"),
        })
    }
}

const KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];

fn authority(dir: &Path, name: &str) -> Result<(), String> {
    let key = format!("{name}.key");
    let certificate = format!("{name}.pem");
    let subject = format!("/CN=Weir tests: {name}");
    let own = [
        "req",
        "-x509",
        "-days",
        "30",
        "-keyout",
        &key,
        "-out",
        &certificate,
        "-subj",
        &subject,
    ];
    openssl(dir, &[&own[..], &KEY[..]].concat())
}

fn signed(dir: &Path, name: &str, subject: &str) -> Result<(), String> {
    let key = format!("{name}.key");
    let request = format!("{name}.request");
    let certificate = format!("{name}.pem");
    let own = ["req", "-keyout", &key, "-out", &request, "-subj", subject];
    openssl(dir, &[&own[..], &KEY[..]].concat())?;
    let names = dir.join("names");
    fs::write(&names, "subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        .map_err(|error| format!("{}: {error}", names.display()))?;
    openssl(
        dir,
        &[
            "x509",
            "-req",
            "-days",
            "30",
            "-in",
            &request,
            "-out",
            &certificate,
            "-extfile",
            "names",
            "-CA",
            "authority.pem",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
        ],
    )
}

fn openssl(dir: &Path, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("openssl")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            format!("cannot run openssl: {error}; `scripts/setup kafka` installs it")
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "openssl {}: {}\n{said}",
        arguments.join(" "),
        output.status
    ))
}
