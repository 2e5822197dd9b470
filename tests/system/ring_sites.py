"""A site on a ring: three `lrq serve` processes with a file each, and sinks in this process."""

import json
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import queues
from lr_client.producer import Producer
from queues.errors import TrimmedError
from queues.send_log.opening import open_log
from queues.send_log.port import Log, TickLimits
from tests.lrq.cli.command import Served, lrq_process, served, spawn
from tests.system.world import World
from tests.waiting import eventually

RANKS = (0, 1, 2)
#: Short, and yet long enough for a busy machine: no test depends on the times.
PACE = {"lease_seconds": 2.0, "stall_seconds": 3.0}


def _payloads(log: Log) -> list[bytes]:
    found, after = list[bytes](), log.bounds().trimmed_seq
    while ticks := log.ticks_after(after, TickLimits()):
        for piece in log.read_all(ticks, TickLimits()):
            found += [bytes(entry.row.payload) for entry in piece]
        after = ticks[-1].end_seq
    return found


class RingSite:
    """Begins, kills and asks the servers; `members` are their endpoints by rank, `routes` those for each member."""

    def __init__(
        self,
        world: World,
        stack: ExitStack,
        folder: Path,
        sinks: Sequence[str] | Mapping[str, str] = ("tokyo",),
        site: str = "paris",
    ) -> None:
        """Begin the servers of *sinks*; a mapping has the endpoints of servers that work already."""
        self.world, self.folder, self._stack, self.site = world, folder, stack, site
        folder.mkdir(exist_ok=True)
        self.sinks = {**sinks} if isinstance(sinks, Mapping) else {sink: self._sink(sink) for sink in sinks}
        self.members = [f"ipc://{folder}/m{rank}" for rank in RANKS]
        self.servers: dict[int, Served] = {}
        self.runs = 0
        self.key = ""
        #: Further lines of the settings, and of their table `[ring]`.
        self.more, self.more_of_ring = "", ""

    def _sink(self, sink: str) -> str:
        return self.world.server(sink, listen=[f"ipc://{self.folder}/{sink}"]).endpoints[0]

    def config(self, rank: int) -> Path:
        return self.folder / f"{rank}.toml"

    def database(self, rank: int) -> Path:
        return self.folder / f"{rank}.db"

    def witness(self, rank: int) -> Path:
        return self.folder / f"{rank}.witness"

    def write(self, rank: int, members: Sequence[str] = ()) -> None:
        """Write the settings of *rank* and create its tables; *members* are the ways of this member to the others."""
        pace = "\n".join(f"{name} = {value}" for name, value in PACE.items())
        peers = "\n".join(f'{sink} = "{endpoint}"' for sink, endpoint in self.sinks.items())
        self.config(rank).write_text(
            f'site_id = "{self.site}"\ndatabase_url = "sqlite:///{self.database(rank)}"\n'
            f'listen = ["{self.members[rank]}"]\ningest = true\nheartbeat_seconds = 0.1\nretry_cap_seconds = 0.5\n'
            f"slow_retry_seconds = 0.5\nsnapshot_poll_seconds = 0.05\n"
            f'{self.more}[producers."*"]\n[peers]\n{peers}\n'
            f"[ring]\nmembers = {json.dumps([*(members or self.members)])}\nrank = {rank}\n"
            f'witness = "{self.witness(rank)}"\n{pace}\n{self.more_of_ring}'
        )
        self.new_tables(rank)

    def new_tables(self, rank: int) -> None:
        engine = queues.create_engine(f"sqlite:///{self.database(rank)}")
        queues.initialize(engine, site_id=self.site)
        engine.dispose()

    def lrq(self, *words: str, rank: int = 0) -> Any:
        """Run a command at one server; return its exit code and its output."""
        done = lrq_process(*words, "--config", str(self.config(rank)))
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def found(self) -> None:
        """Found all members by the commands, in the order of the manual."""
        code, words = self.lrq("ring", "init", "--json")
        assert code == 0, words
        self.key = json.loads(words)["key"]
        for rank in RANKS[1:]:
            code, words = self.lrq("ring", "init", "--key", self.key, rank=rank)
            assert code == 0, words

    def begin_anew(self) -> None:
        """Write the settings of all members, found the ring, and begin its servers."""
        for rank in RANKS:
            self.write(rank)
        self.found()
        self.begin(*RANKS)

    def begin(self, *ranks: int) -> None:
        for rank in ranks:
            self.runs += 1
            made = served("--config", str(self.config(rank)), folder=self.folder / f"run{self.runs}")
            self.servers[rank] = self._stack.enter_context(made)

    def join(self, sink: str, *ranks: int) -> None:
        """Begin one more site, and name its endpoint to the running servers of *ranks*."""
        self.sinks[sink] = self._sink(sink)
        for rank in ranks:
            self.write(rank)
            self.servers[rank].process.send_signal(signal.SIGHUP)

    def provide(self, *ranks: int, state: bytes) -> None:
        """Start `lrq provide` beside the servers of *ranks*, with a provider whose whole state is one payload."""
        words = f"def state(context):\n    context.transmit({state!r})\n    context.mark_completed()\n"
        (self.folder / "provided.py").write_text(words)
        for rank in ranks:
            command = ("provide", "provided:state", "--client", "policy", "--config", str(self.config(rank)))
            with (self.folder / f"provide{rank}").open("wb") as out:
                process = spawn(*command, stdout=out, stderr=out, cwd=self.folder)
            self._stack.callback(process.wait, 30)
            self._stack.callback(process.kill)

    def kill(self, rank: int) -> None:
        process = self.servers.pop(rank).process
        process.kill()
        process.wait(30)

    def look(self, rank: int) -> dict[str, Any]:
        """Return the states of all members as *rank*'s settings reach them, by `lrq ring status`."""
        _, words = self.lrq("ring", "status", "--json", rank=rank)
        return json.loads(words.splitlines()[0] if words.startswith('{"') else words[: words.rindex("}") + 1])

    def led_by(self, rank: int) -> None:
        def leads() -> bool:
            status = self.look(rank)["members"][rank]["status"]
            return status is not None and status["role"] == "leading" and status["leader"] == rank

        eventually(leads, timeout=180, interval=0.2)

    def producer(self, name: str) -> Producer:
        return Producer(",".join(self.members), client="policy", producer=name)

    def lose_disk(self, rank: int) -> None:
        """Kill a server, and put an empty disk in."""
        self.kill(rank)
        for file in self.folder.glob(f"{rank}.db*"):
            file.unlink()
        self.witness(rank).unlink()
        self.new_tables(rank)

    def trimmed(self, rank: int) -> int:
        """Return the number up to which entries are trimmed in the file of one member."""
        engine = queues.create_engine(f"sqlite:///{self.database(rank)}")
        seq = open_log(engine).bounds().trimmed_seq
        engine.dispose()
        return seq

    def log(self, rank: int) -> list[bytes]:
        """Return the payloads in the file of one member, without trimmed ones."""
        engine, found = queues.create_engine(f"sqlite:///{self.database(rank)}"), None
        while found is None:
            # The server may trim between two reads.
            with suppress(TrimmedError):
                found = _payloads(open_log(engine))
        engine.dispose()
        return found
