"""A certificate for servers on the loopback, made by openssl and signed by itself."""

import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> Path:
    """`cert.pem`, valid for 127.0.0.1, and `key.pem` in this folder, which is returned."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*command, *subject, *files], check=True, capture_output=True)
    return folder
