"""Fixtures with real servers: a Slurm cluster, PostgreSQL, MariaDB.

A test that asks for one of them is marked ``cluster`` or ``database`` by itself. Where the programs
are missing it is skipped, or fails if NIMO_REQUIRE_CLUSTER=1.

``pytest --slurm 26.05/slurm`` runs the tests with another release of Slurm than the machine's own
(`tests.cluster.releases`). Where that one cannot be had, not being root or without a Debian mirror,
they are skipped all the same: a mirror that is down says nothing about this project.
"""

import contextlib
import importlib
import itertools
import os
import shutil
import signal
import tempfile
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.cluster import SlurmCluster
from tests.cluster import missing_programs as missing_slurm_programs
from tests.cluster.releases import ReleaseError
from tests.databases import MariaDB, PostgreSQL, Server, missing_programs, unprivileged
from tests.environments import fill, make_wheel
from tests.processes import Account, Processes

# How long an example takes says more about what else the machine does.
settings.register_profile(
    "unhurried", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
# For who changes what an invariant is about.
settings.register_profile("thorough", settings.get_profile("unhurried"), max_examples=600)
settings.load_profile("unhurried")
# Programs that a shell starts in the background ignore SIGINT, and so would those that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ClusterFactory = Callable[..., AbstractContextManager[SlurmCluster]]

MARKS = {
    "slurm": "cluster",
    "slurm_cluster": "cluster",
    "postgresql_server": "database",
    "mariadb_server": "database",
}
HERE = Path(__file__).parent
#: Where tests with servers are: a run of these alone imports no others, which each worker would.
WITH_SERVERS = (
    *("attack/", "cluster/", "end_to_end/", "harm/", "requests/", "lua/test_ho"),
    *("predictor/test_old", "slurm_plugin/doctor/", "slurm_plugin/evaluation/test_out"),
    *(
        f"sacct_ingest/{name}"
        for name in ("faults/", "ingest/", "runs/test_usage", "sources/test_sacct.", "store/")
    ),
    *(
        f"slurm_plugin/cli/test_{name}"
        for name in ("again_", "dask", "fit_", "limits_", "local_", "refused_", "why_")
    ),
    *(
        f"slurm_plugin/experiments/{name}"
        for name in ("learn/test_on_", "plan/test_on_", "plan/test_site", "plan/test_tasks_")
    ),
    *("slurm_plugin/experiments/test_campaign_", "slurm_plugin/experiments/test_profile_"),
    *(
        f"slurm_plugin/slurm/test_{name}"
        for name in ("gpu_types_", "job_request_", "limits", "other_", "poller")
    ),
)
#: Words in ids of tests that take minutes: those of a file with one of them are a worker's own.
APART = ("[cli_filter-", "_slurmrestd", "_doctor_shows_", "_partition_rests_")
CLUSTER_TIMES = pytest.StashKey[list[str]]()

_database_names = (f"nimo_test_{number}" for number in itertools.count(1))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the release of Slurm be chosen, and recorded decisions be renewed."""
    parser.addoption(
        "--record", action="store_true", help="record the decisions of today as the right ones"
    )
    parser.addoption(
        "--slurm",
        metavar="RELEASE[/AUTH]",
        default="",
        help="Slurm to test with, such as 26.05/slurm (auth: munge or slurm; default: installed)",
    )


class Parts(LoadFileScheduling):
    """Workers take a file, or a part of it (`APART`), at a time."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        return file + next((word for word in APART if word in test), "")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out parts of files on another release, whose tests are in few files."""
    parts = config.option.slurm and config.option.dist == "loadfile"
    return Parts(config, log) if parts else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each of several workers import another share of the files first.

    All of them go through all files in one order: in a new clone each would compile every file,
    three times as long as the rest of the collection takes, and throw away what the others did.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args != session.config.getini("testpaths"):
        return
    paths = sorted(HERE.rglob("test_*.py"))
    first = int(worker["workerid"].removeprefix("gw"))
    for path in paths[first :: worker["workercount"]]:
        if not pytest_ignore_collect(path, session.config):
            module = ".".join(path.relative_to(HERE.parent).with_suffix("").parts)
            # What is wrong with it is said where it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(module)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files that can have what the marks select."""
    if not collection_path.name.startswith("test_"):
        return None
    match config.option.markexpr:
        case "releases" | "kernels and not slow":
            word = config.option.markexpr.split()[0]
            return f"mark.{word}" not in collection_path.read_text() or None
        case "cluster" | "cluster or database":
            return not _with_servers(collection_path) or None
    return None


def _with_servers(path: Path) -> bool:
    return str(path.relative_to(HERE)).startswith(WITH_SERVERS)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests that use a real server, before ``-m`` selects; sort the files after it."""
    for item in items:
        for name in MARKS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(MARKS[name])
            if not _with_servers(item.path):
                raise pytest.UsageError(f"{item.path}: not in WITH_SERVERS of {__file__}")
    yield
    items[:] = by_files(items)


def by_files(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Sort tests: folders with a long file first, and in a folder its long files.

    Workers take one file after another: a long one that began last would keep `make test` waiting.
    Those of a folder follow each other: a worker starts the servers of its fixtures once.
    """
    files = Counter(item.path for item in items)
    folders = Counter(item.path.parent for item in items)
    long = {item.path for item in items if item.get_closest_marker("long")}
    with_long = {path.parent for path in long}

    def place(item: pytest.Item) -> tuple[object, ...]:
        path, folder = item.path, item.path.parent
        whole = (folder not in with_long, -folders[folder], folder)
        return (*whole, path not in long, -files[path], path)

    return sorted(items, key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how long the clusters took to come up and go down."""
    if times := terminalreporter.config.stash.get(CLUSTER_TIMES, []):
        terminalreporter.write_line("Slurm clusters: " + "; ".join(times))


def unavailable(reason: str) -> None:
    """Skip the test, or fail it where nothing may be missing (NIMO_REQUIRE_CLUSTER=1)."""
    hint = f"{reason}; 'make test' as root installs what is missing"
    if os.environ.get("NIMO_REQUIRE_CLUSTER") == "1":
        pytest.fail(hint)
    pytest.skip(hint)


def need_in_jobs(cluster: SlurmCluster, *programs: str | Path) -> None:
    """Skip the test where the cluster's jobs do not find these programs.

    Packages that are called like them are installed in a root directory when they are first needed.
    """
    lacking, root = cluster.lacking(*programs), cluster.root
    if lacking and root is None:
        unavailable(f"not installed: {', '.join(lacking)}")
    with contextlib.suppress(ReleaseError):
        if root is not None and (packages := [name for name in lacking if "/" not in name]):
            root.add(packages)
    if lacking := cluster.lacking(*programs):
        reported = ", ".join(lacking)
        pytest.skip(
            f"not installed: {reported} in the root directory of this Slurm, where jobs run"
        )


@contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    """Make a directory with a short name that other users may enter.

    pytest's own tmp_path is closed to them, and too long for Unix sockets.
    """
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the project's wheel."""
    return make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the commands of a new environment that holds the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder)
    fill(folder / "bin" / "python", wheel)
    return folder / "bin"


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that all of pytest's workers share for as long as they run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@contextmanager
def database_server(
    kind: type[MariaDB] | type[PostgreSQL], account: Account, **options: Path
) -> Iterator[MariaDB | PostgreSQL]:
    """Run a server of its own for a while."""
    if missing := missing_programs(kind):
        unavailable(f"not installed: {', '.join(missing)}")
    with scratch_directory(f"nimo-{kind.__name__.lower()}-") as directory:
        processes = Processes(directory)
        processes.open(leashed=True)
        try:
            server = kind(directory, processes, account, **options)
            server.up()
            yield server
        finally:
            processes.close()


@contextmanager
def fresh_database(server: Server) -> Iterator[str]:
    """Create an empty database, give its URL, drop it afterwards."""
    name = next(_database_names)
    yield server.create(name)
    server.drop(name)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """A real PostgreSQL server; nearly always `postgresql_url` is what a test wants."""
    with database_server(PostgreSQL, unprivileged()) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server(of_all_workers: Path) -> Iterator[Server]:
    """A real MariaDB server; nearly always `mariadb_url` is what a test wants."""
    with database_server(MariaDB, Account.mine(), installed=of_all_workers) as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: Server) -> Iterator[str]:
    """SQLAlchemy URL of an empty PostgreSQL database of the test's own."""
    with fresh_database(postgresql_server) as url:
        yield url


@pytest.fixture
def mariadb_url(mariadb_server: Server) -> Iterator[str]:
    """SQLAlchemy URL of an empty MariaDB database of the test's own."""
    with fresh_database(mariadb_server) as url:
        yield url


@pytest.fixture(scope="session")
def slurm_cluster(request: pytest.FixtureRequest, of_all_workers: Path) -> ClusterFactory:
    """Factory of clusters of one's own.

    Takes the options of `SlurmCluster`, by default with the release and authentication of
    ``--slurm``; use it in a fixture of module scope::

        @pytest.fixture(scope="module")
        def cluster(slurm_cluster):
            with slurm_cluster(nodes=4, lua=HOOKS) as cluster:
                yield cluster
    """
    release, _, auth = request.config.getoption("--slurm").partition("/")
    chosen: dict[str, Any] = {"release": release or None, "auth": auth or "munge"}
    if missing := missing_slurm_programs(chosen["release"]):
        unavailable(f"not installed: {', '.join(missing)}")
    times = request.config.stash.setdefault(CLUSTER_TIMES, [])

    @contextmanager
    def cluster(**options: Any) -> Iterator[SlurmCluster]:
        with scratch_directory("nimo-slurm-") as directory:
            try:
                made = SlurmCluster(directory, installed=of_all_workers, **chosen | options)
            except ReleaseError as error:
                pytest.skip(str(error))
            up_s = made.up()
            try:
                yield made
            finally:
                times.append(
                    f"{made.settings.nodes} nodes up {up_s:.1f} s, down {made.down():.1f} s"
                )

    return cluster


@pytest.fixture(scope="session")
def slurm(slurm_cluster: ClusterFactory) -> Iterator[SlurmCluster]:
    """A real Slurm cluster of eight nodes without hooks, shared by all tests: leave it usable."""
    with slurm_cluster() as cluster:
        yield cluster
