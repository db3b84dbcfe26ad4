"""What the Makefile needs before anything is installed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
