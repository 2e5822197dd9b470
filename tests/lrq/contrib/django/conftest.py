"""The example project of Django over the database of a site."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, NullPool, make_url, text

import queues
from tests.lr_client.subscriber.arrivals import Arrivals
from tests.lrq.contrib.django.project import Project

pytest.importorskip("django")

#: Creates the database of a site with the tables of the project.
NewProject = Callable[..., Project]


@pytest.fixture(scope="session")
def migrated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Give a function that names a database with the project's tables, without a site: a copy is quick."""
    made: dict[str, str] = {}

    def named(dialect: str) -> str:
        if dialect not in made:
            made[dialect] = _migrated(dialect, request, tmp_path_factory)
        return made[dialect]

    return named


def _migrated(dialect: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> str:
    name = f"project_{uuid.uuid4().hex}"
    if dialect == "sqlite":
        name = str(folders.mktemp("project") / "site.db")
        url = make_url(f"sqlite:///{name}")
    else:
        server = make_url(request.getfixturevalue("postgres_server"))
        admin = queues.create_engine(server, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f'CREATE DATABASE "{name}"'))
        admin.dispose()
        url = server.set(database=name)
    engine = queues.create_engine(url, poolclass=NullPool)
    Project(engine, "template").manage("migrate", "--verbosity", "0")
    with engine.begin() as connection:
        for table in ("lrq_site", "lrq_branches", "lrq_log_head"):
            connection.execute(text(f"DELETE FROM {table}"))
    return name


@pytest.fixture
def new_project(
    dialect: str, new_copy: Callable[[str | None], str], migrated: Callable[[str], str]
) -> Iterator[NewProject]:
    """Give a function that creates the project at a site."""
    engines: list[Engine] = []

    def create(site: str, **variables: str) -> Project:
        engine = queues.create_engine(new_copy(migrated(dialect)))
        engines.append(engine)
        queues.initialize(engine, site_id=site)
        return Project(engine, site, **variables)

    yield create
    for engine in engines:
        engine.dispose()


@pytest.fixture
def office(new_project: NewProject) -> Project:
    return new_project("office")


@pytest.fixture
def north(office: Project) -> Arrivals:
    """Give the receive queue of the entries from site north at the office."""
    return Arrivals(office.engine, "orders", "north")
