"""The steps of the Makefile that install something: their settings, their progress and their errors."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.test_tls import certificate

ROOT = Path(__file__).parents[1]
QUIETLY = ROOT / "tools" / "quietly.sh"


def uv_settings(**environment: str) -> list[str]:
    """What the script prints where pip is configured only as given."""
    others = ("PIP_", "UV_", "SSL_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    done = subprocess.run(
        [ROOT / ".uv" / "bin" / "python", ROOT / "tools" / "uv_settings.py"],
        env={**clean, "PIP_CONFIG_FILE": os.devnull, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_no_pip_settings_give_no_uv_settings() -> None:
    assert uv_settings() == []


def test_pip_files_and_variables_become_uv_settings(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://one.test/simple\nextra-index-url =\n  https://two.test/a\n"
        "  https://three.test/b\ncert = /etc/certificates.pem\ntimeout = 9\n"
        "[install]\nfind-links = /wheels /more\n"
    )
    # The files of the machine count too, unless these settings replace theirs.
    assert uv_settings(PIP_CONFIG_FILE=str(file), PIP_INDEX_URL="https://four.test/it's") == [
        "export SSL_CERT_FILE=/etc/certificates.pem",
        "export UV_DEFAULT_INDEX='https://four.test/it'\"'\"'s'",
        "export UV_FIND_LINKS=/wheels,/more",
        "export UV_INDEX='https://two.test/a https://three.test/b'",
        "export UV_INDEX_STRATEGY=unsafe-best-match",
    ]


def test_uv_variable_overrides_pip(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://one.test/simple\n")
    printed = uv_settings(PIP_CONFIG_FILE=str(file), UV_DEFAULT_INDEX="https://own.test")
    assert not [line for line in printed if "UV_DEFAULT_INDEX" in line]


def test_settings_that_pip_cannot_read_are_reported_with_the_cause_that_pip_gives(tmp_path: Path) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("index-url without a section\n")
    done = subprocess.run(
        [ROOT / ".uv" / "bin" / "python", ROOT / "tools" / "uv_settings.py"],
        env={**os.environ, "PIP_CONFIG_FILE": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Cannot read the settings of pip" in done.stderr
    assert "contains no section headers" in done.stderr
    assert "Traceback" not in done.stderr


def quietly(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["sh", QUIETLY, *command], capture_output=True, text=True, check=False)


def test_a_step_that_succeeds_prints_nothing() -> None:
    done = quietly("sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_step_that_fails_prints_the_end_of_its_output_and_its_exit_code() -> None:
    done = quietly("sh", "-c", "seq 1 100; echo the cause >&2; exit 7")
    assert done.returncode == 7
    assert done.stderr.splitlines()[-3:-1] == ["100", "the cause"]
    assert "failed with exit code 7: sh -c" in done.stderr
    assert "\n1\n" not in done.stderr


def test_a_step_that_takes_long_shows_how_long_it_has_run_and_the_last_line_of_its_output() -> None:
    step = subprocess.Popen(
        ["sh", QUIETLY, "sh", "-c", "echo attempt 1 failed; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PROGRESS_SECONDS": "1"},
    )
    assert step.stdin is not None
    assert step.stdout is not None
    assert step.stdout.readline() == "   1 s: attempt 1 failed\n"
    step.stdin.write("done\n")
    step.stdin.close()
    assert step.wait() == 0
    step.stdout.close()


def install_page_packages(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the npm step in a copy of the project that shares this environment and has an empty npm cache."""
    shutil.copytree(ROOT / "web", folder / "web", ignore=shutil.ignore_patterns("node_modules"))
    for name in ("Makefile", "tools", ".uv"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(sys.prefix)
    others = ("npm_", "pip_", "node_", "ssl_", "make", "http_proxy", "https_proxy", "all_proxy")
    clean = {name: value for name, value in os.environ.items() if not name.lower().startswith(others)}
    settings = {"npm_config_cache": str(folder / "cache"), "npm_config_fetch_retries": "0"}
    return subprocess.run(
        ["make", "-o", ".venv/ready", "web/node_modules/ready"],
        cwd=folder,
        env={**clean, **settings, "PIP_CONFIG_FILE": os.devnull, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_registry_that_cannot_be_reached_is_named_in_the_output_of_make(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # taken, and never listened on
        registry = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        done = install_page_packages(tmp_path, npm_config_registry=registry)
    assert done.returncode != 0
    assert "ECONNREFUSED" in done.stderr
    assert registry in done.stderr
    assert not (tmp_path / "web" / "node_modules" / "ready").exists()


@contextmanager
def registry_without_packages(public: Path, private: Path) -> Iterator[str]:
    """An npm registry over TLS that refuses every request."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_npm_trusts_the_certificates_that_pip_is_configured_to_trust(tmp_path: Path) -> None:
    public, private = certificate(tmp_path)
    with registry_without_packages(public, private) as registry:
        trusted = install_page_packages(tmp_path / "a", npm_config_registry=registry, PIP_CERT=str(public))
        unknown = install_page_packages(tmp_path / "b", npm_config_registry=registry)
    assert "501 Unsupported method" in trusted.stderr
    assert "self-signed certificate" not in trusted.stderr
    assert "self-signed certificate" in unknown.stderr


def test_a_browser_that_apt_cannot_install_is_reported_with_the_cause_that_apt_gives(tmp_path: Path) -> None:
    commands = {
        "apt-get": "echo E: Could not resolve packages.test; exit 100",
        "sudo": 'shift; exec "$@"',
        "sh": f'exec {shutil.which("sh")} "$@"',
    }
    for name, script in commands.items():
        (tmp_path / name).write_text(f"#!{shutil.which('sh')}\n{script}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("mktemp", "tail", "cut", "sleep", "rm", "true"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = subprocess.run(
        [sys.executable, "-m", "tools.browser"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path), "ROUNDEL_CHROMIUM": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "E: Could not resolve packages.test" in done.stderr
    assert "failed with exit code 100: " in done.stderr
    assert "No Chromium was found" in done.stderr


def test_every_pin_has_a_hash_and_no_address() -> None:
    """A package that was replaced in an index is not installed, whichever index it comes from."""
    text = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert "://" not in text
    pins = text.replace(" \\\n", " ").splitlines()
    assert len(pins) > 50
    assert [pin for pin in pins if "==" not in pin or " --hash=sha256:" not in pin] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (sync,) = [line for line in makefile.splitlines() if "pip sync" in line]
    assert "--require-hashes" in sync
