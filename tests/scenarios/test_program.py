"""``motet serve`` as people run it: encrypted, ended by a signal, and what it says when it cannot begin."""

from __future__ import annotations

import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
import trustme

from motet import Client
from tests.scenarios.harness import CURVES, END, OPERATOR, Program, poll, program, write_study

EXACT = CURVES + '[release]\npolicy = "exact"\nevery = "1h"\n'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, ssl.SSLContext]:
    """A certificate and its key, and a context that trusts who signed it."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    signed, context = authority.issue_cert("127.0.0.1"), ssl.create_default_context()
    signed.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    signed.private_key_pem.write_to_path(folder / "key.pem")
    authority.configure_trust(context)
    return folder / "cert.pem", folder / "key.pem", context


def test_it_speaks_tls(tmp_path: Path, certificate: tuple[Path, Path, ssl.SSLContext]) -> None:
    certfile, keyfile, context = certificate
    study = write_study(tmp_path, EXACT)
    with program(study, "--certfile", str(certfile), "--keyfile", str(keyfile), verify=context) as served:
        assert served.url.startswith("https://")
        with httpx.Client(verify=context) as http, Client(served.url, OPERATOR, http=http) as operator:
            (ann,) = operator.enroll(["ann"])
            with Client(served.url, ann.token, http=http) as me:
                assert me.send([0.5], 1.0).count == 1
        with httpx.Client() as stranger, pytest.raises(httpx.ConnectError, match="certificate"):
            stranger.get(f"{served.url}/healthz")


def test_what_it_needs_for_tls_is_asked_for_in_one_line(
    tmp_path: Path, certificate: tuple[Path, Path, ssl.SSLContext]
) -> None:
    certfile, keyfile, _ = certificate
    study = write_study(tmp_path, EXACT)
    for options, expected in (
        (["--certfile", str(certfile)], "--keyfile"),
        (["--certfile", str(tmp_path / "none.pem"), "--keyfile", str(keyfile)], "none.pem"),
        (["--certfile", str(keyfile), "--keyfile", str(certfile)], "key.pem"),
    ):
        command = [sys.executable, "-m", "motet", "serve", str(study), *options]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=END, check=False)
        assert ended.returncode == 1
        assert len(ended.stderr.splitlines()) == 1
        assert expected in ended.stderr


def test_a_port_that_is_taken_is_told_in_one_line(tmp_path: Path) -> None:
    study = write_study(tmp_path, EXACT)
    with program(study):
        other = tmp_path / "other.toml"
        other.write_text(study.read_text(encoding="utf-8"), encoding="utf-8")
        command = [sys.executable, "-m", "motet", "serve", str(other)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=END, check=False)
        assert ended.returncode == 1
        assert "port" in ended.stderr.splitlines()[-1]
        assert "Traceback" not in ended.stderr


def test_a_signal_under_load_ends_it_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    study = write_study(tmp_path, EXACT)
    with program(study) as served:
        with served.operator() as operator:
            (ann,) = operator.enroll(["ann"])
        acknowledged: list[str] = []
        sending = threading.Thread(target=send_until_refused, args=(served, ann.token, acknowledged), daemon=True)
        sending.start()
        poll(lambda: len(acknowledged) > 50, 60, "examples are taken")
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(END) == 0, served.log()
        sending.join(END)
        kept = {id for (id,) in served.rows("select id from examples")}
        assert set(acknowledged) <= kept
        assert len(kept) <= len(acknowledged) + 1  # the last answer may be lost on its way
        served.start()


def send_until_refused(served: Program, token: str, acknowledged: list[str]) -> None:
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {token}"}) as http:
        for number in range(100_000):
            try:
                answer = http.post("/v1/examples", json={"examples": [{"id": f"{number}", "x": [0.5], "y": 1.0}]})
            except httpx.TransportError:
                return
            if answer.status_code != 200:
                return
            acknowledged.append(f"{number}")
