"""Links by certificates of the site."""

import shutil

import pytest

from slurm_plugin.config.setting_types import Auth
from slurm_plugin.config.settings import RelaySettings, Tls
from slurm_plugin.nimod.relay.frames import LinkError
from slurm_plugin.nimod.relay.handshake import Certificates, check_name
from tests.certificates import Authority
from tests.conftest import unavailable
from tests.processes import wait_until
from tests.slurm_plugin.nimod.relay.links import HOST, asked, port


@pytest.fixture
def site(tmp_path):
    if not shutil.which("openssl"):
        unavailable("not installed: openssl")
    return Authority(tmp_path / "site")


def settings(files, *login_nodes, **given):
    return RelaySettings(auth=Auth.TLS, tls=Tls(**files, login_nodes=login_nodes), **given)


@pytest.fixture
def gate(links, site):
    at = port()
    files = site.certify("localhost", f"IP:{HOST}")
    given = settings(files, "login*.example", listen=f"{HOST}:{at}")
    return at, links.gateway(at, settings=given)


def trouble(link):
    (state,) = link.state()
    return state.trouble


def refused(links, at, files):
    """Why there is no link with these files."""
    link = links.uplink(at, up=False, settings=settings(files))
    wait_until(lambda: trouble(link)[:10] not in ("", "not linked"), what="an attempt")
    return trouble(link)


def test_both_sides_show_a_certificate(links, gate, site):
    at, gateway = gate
    link = links.uplink(at, settings=settings(site.certify("login1.example")))
    assert asked(link)[0] == b"7:line\n"
    assert gateway.relays
    assert link.state()[0].auth == "tls"


def test_certificates_of_other_hosts_make_no_relay(links, gate, site):
    at, gateway = gate
    assert refused(links, at, site.certify("node17.example"))
    assert gateway.relays == []


def test_a_pattern_matches_label_by_label():
    def certificate(name):
        return {"subjectAltName": (("DNS", name),)}

    check_name(certificate("login1.cluster"), ["login*.cluster"])
    for name in ("login.evil.cluster", "login1.cluster.evil", "login1"):
        with pytest.raises(LinkError):
            check_name(certificate(name), ["login*.cluster"])


def test_another_authority_counts_neither_here_nor_there(links, gate, site, tmp_path):
    at, gateway = gate
    other = Authority(tmp_path / "other")
    ours = site.certify("login1.example")
    theirs = other.certify("login1.example")
    assert "self-signed" in refused(links, at, theirs) or "verify" in refused(links, at, theirs)
    assert refused(links, at, theirs | {"authority": ours["authority"]})
    assert gateway.relays == []


def test_a_controller_of_another_name_is_refused(links, site):
    at = port()
    given = settings(site.certify("node17.example"), "login*", listen=f"{HOST}:{at}")
    links.gateway(at, settings=given)
    assert "localhost" in refused(links, at, site.certify("login1.example"))


def test_new_certificates_count_at_the_next_connection(site):
    files = site.certify("login1.example")
    certificates = Certificates(Tls(**files), server=False)
    before = certificates.context()
    assert certificates.context() is before
    site.certify("login1.example")
    assert certificates.context() is not before


def test_a_file_that_cannot_be_read_is_named(site, tmp_path):
    files = site.certify("login1.example") | {"key": str(tmp_path / "none")}
    with pytest.raises(LinkError, match=r"none: No such file.*relay\.tls"):
        Certificates(Tls(**files), server=False).context()
