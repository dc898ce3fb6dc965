"""Behind a real nginx, with the lines that docs/web.md shows."""

import re
import socket
import subprocess
from base64 import b64encode
from contextlib import contextmanager
from pathlib import Path
from shutil import which

import pytest

from tests.processes import wait_until
from tests.slurm_plugin.web.test_server import ME, WAIT_S, OverUnix, got, serving

NGINX = which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin")
PAGE = Path(__file__).parents[3] / "docs" / "web.md"
HOST = "hpc.example.org"
CONFIG = """\
daemon off;
user {me};
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen unix:{folder}/nginx.sock;
        {location}
    }}
}}
"""
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


def location(folder):
    """Give the documented lines, with passwords of our own for whatever authenticates."""
    result = re.search(r"^location /nimo/ \{.*?^\}", PAGE.read_text(), re.M | re.S)
    own = f"auth_basic nimo; auth_basic_user_file {folder}/passwords;"
    text, changed = re.subn(r"auth_gss on;.*", own, result[0])
    assert changed == 1
    text, changed = re.subn(r"unix:/[^:]+:", f"unix:{folder}/web.sock:", text)
    assert changed == 1
    return text


def listens(place):
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(place) == 0


@contextmanager
def nginx(folder):
    (folder / "passwords").write_text("ada:{PLAIN}pw\nboss:{PLAIN}pw\n")
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(me=ME, folder=folder, location=location(folder)))
    with subprocess.Popen([str(NGINX), "-p", str(folder), "-c", str(config)]) as process:
        try:
            place = str(folder / "nginx.sock")
            wait_until(lambda: listens(place), timeout_s=WAIT_S, what="nginx to listen")
            yield OverUnix(place)
        finally:
            process.terminate()
            process.wait(timeout=WAIT_S)


def test_users_see_theirs_and_admins_all(store_path):
    folder = store_path.parent
    settings = f"web: {{hosts: [{HOST}], prefix: /nimo, proxies: [{ME}], admins: [boss]}}\n"
    with serving(store_path, str(folder / "web.sock"), settings), nginx(folder) as browser:

        def page(user, path="/nimo/applications", **more):
            own = {"Host": HOST, "Connection": "close"}
            if user:
                own["Authorization"] = "Basic " + b64encode(f"{user}:pw".encode()).decode()
            return got(browser, path, **own | more)

        assert page("")[0] == 401
        status, text = page("ada")
        assert (status, "<bdi>ada</bdi> sees own jobs" in text, "bob" in text) == (200, True, False)
        # What a browser says about its user, the proxy replaces.
        assert "<bdi>ada</bdi> sees own jobs" in page("ada", **{"X-Forwarded-User": "boss"})[1]
        status, text = page("boss")
        assert (status, "<bdi>boss</bdi> sees all jobs" in text, "bob" in text) == (200, True, True)
        style = re.search(r'href="(/nimo/style-[^"]+)"', text)
        assert page("ada", style[1])[0] == 200
        assert page("ada", Host="evil.example")[0] == 421
