"""The trace that an incident of a disk gets, once."""

from __future__ import annotations

import threading
from dataclasses import replace
from queue import SimpleQueue

from support.machine import disk, topology
from support.tracing import sample

from iowarden.daemon.trace.protocol import TraceRequest, TraceResult
from iowarden.daemon.trace_client import incident_traces
from iowarden.daemon.trace_client.client import TraceError
from iowarden.daemon.trace_client.incident_traces import IncidentTrace, IncidentTraces
from iowarden.rules.incidents.model import Incident
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import identity

SDB = replace(disk("sdb", serial="S-B"), device_number="8:16")
MACHINE = topology(SDB, replace(disk("sdc"), device_number="8:32"))
NOW = 1000.0
WAIT_SECONDS = 60.0


def incident(name: str = "sdb", started: float = NOW, **fields: object) -> Incident:
    """Return an incident that began now."""
    key = identity(MACHINE, name).key
    usual: dict[str, object] = {"firing": True, "started_seconds": started, **fields}
    return Incident(f"I-{name}", key, name, started, Severity.WARNING, **usual)  # type: ignore[arg-type]


class Host:
    """A host whose incidents are traced: the requests, and their results."""

    def __init__(self) -> None:
        """Answer each at once with the same result."""
        self.requests: SimpleQueue[TraceRequest] = SimpleQueue()
        self.posted: SimpleQueue[IncidentTrace] = SimpleQueue()
        self.problem = ""
        self.ready = threading.Event()
        self.ready.set()
        self.traces = IncidentTraces(self.trace, lambda: NOW, self.posted.put)

    def trace(self, request: TraceRequest) -> TraceResult:
        """Trace, or fail."""
        self.requests.put(request)
        self.ready.wait(WAIT_SECONDS)
        if self.problem == "bug":
            raise ZeroDivisionError("by zero")
        if self.problem:
            raise TraceError(self.problem)
        return sample()

    def step(self, *incidents: Incident) -> None:
        """Take a step of the loop."""
        self.traces.step(incidents, MACHINE)

    def taken(self) -> str:
        """Take the next result; return the reason to log."""
        return self.traces.take(self.posted.get(timeout=WAIT_SECONDS))

    def lines(self, of: Incident) -> list[str]:
        """Return the evidence of an incident."""
        return [e.text for e in self.traces.evidence(of, lambda at: at + 5e8)]


def test_an_incident_of_a_disk_is_traced_once_for_three_seconds() -> None:
    """With latencies by operation, read-ahead, and the slowest request as evidence."""
    host = Host()
    host.step(incident())
    assert host.requests.get(timeout=WAIT_SECONDS) == TraceRequest(("8:16",), 3.0)
    assert host.taken() == ""
    host.step(incident())
    host.step(incident())
    assert host.requests.empty()
    assert host.lines(incident()) == [
        "trace of sdb for 3 s: 2 requests (1/s), 136 KiB; read-ahead is 100 % of the bytes read",
        "sdb read-ahead: 1 request, p50 1.2 ms, p99 1.2 ms, slowest 1.2 ms",
        "sdb sync write: 1 request, p50 2.5 s, p99 2.5 s, slowest 2.5 s",
        (
            "sdb slowest request: 2.5 s, sync write of 8 KiB at sector 4096, issued by postgres"
            " (pid 812)"
        ),
        (
            "sdb: 1 request not completed at the end, the oldest for 2.9 s (sync write, mysqld"
            " (pid 812))"
        ),
    ]
    (first, *_) = host.traces.evidence(incident(), lambda at: at + 5e8)
    assert (first.realtime_seconds, first.source) == (NOW + 5e8, "trace")
    assert host.lines(incident("sdc")) == []


def test_programs_are_not_named_where_the_configuration_forbids_it() -> None:
    """Neither the one of the slowest request nor of one that is not completed."""
    host = Host()
    host.traces = IncidentTraces(host.trace, lambda: NOW, host.posted.put, lambda: False)
    host.step(incident())
    assert host.taken() == ""
    text = "\n".join(host.lines(incident()))
    assert text.count("a program") == 2
    assert not any(name in text for name in ("postgres", "mysqld", "812"))


def test_one_that_comes_back_is_traced_again_and_has_no_old_evidence() -> None:
    """Each time it begins; the trace of last week is none of today's."""
    host = Host()
    host.step(incident())
    host.taken()
    later = incident(started=NOW + 7 * 86_400)
    assert host.lines(later) == []
    host.step(replace(later, firing=False))
    assert host.posted.empty()
    host.step(later)
    host.taken()
    assert host.requests.qsize() == 2


def test_neither_an_array_nor_an_old_incident_is_traced() -> None:
    """One that began before this start has been traced, or is past that."""
    host = Host()
    host.step(
        replace(incident(), key="host"),
        replace(incident(), identifier="I-md0", key="device md0"),
        incident("sdc", NOW - 1),
    )
    host.traces.step([incident()], None)
    assert host.requests.empty()


def test_nothing_waits_for_a_trace_and_a_storm_has_an_end() -> None:
    """The loop goes on while one runs; what would be traced too late is evidence of its own."""
    host = Host()
    host.ready.clear()
    host.step(*(replace(incident(), identifier=f"I-{n}") for n in range(40)))
    host.ready.set()
    names = [host.posted.get(timeout=WAIT_SECONDS).incident for _ in range(5)]
    assert names == [f"I-{n}" for n in range(incident_traces.MAX_WAITING + 1)]
    assert host.lines(replace(incident(), identifier="I-4")) == []
    for left_out in ("I-5", "I-39"):
        assert host.lines(replace(incident(), identifier=left_out)) == [
            "no trace of sdb: 5 other disks were to be traced before it"
        ]
    host.step(replace(incident(), identifier="I-last"))
    assert host.posted.get(timeout=WAIT_SECONDS).incident == "I-last"


def test_a_reason_is_logged_once_and_changes_nothing_else() -> None:
    """No tracefs here: each incident would have that reason. A bug does not end the thread."""
    host = Host()
    host.problem = "tracefs is not mounted"
    reasons = []
    for n in range(3):
        host.step(replace(incident(), identifier=f"I-{n}"))
        reasons.append(host.taken())
    assert reasons == ["tracefs is not mounted", "", ""]
    assert host.lines(replace(incident(), identifier="I-0")) == []
    host.problem = "bug"
    host.step(replace(incident(), identifier="I-8"))
    assert host.taken().startswith("bug: ZeroDivisionError")
    host.problem = ""
    host.step(replace(incident(), identifier="I-9"))
    assert host.taken() == ""
    assert host.lines(replace(incident(), identifier="I-9")) != []


def test_memory_is_bounded() -> None:
    """The last 200 incidents keep their traces."""
    host = Host()
    for n in range(incident_traces.MAX_STORED + 1):
        host.traces.take(IncidentTrace(f"I-{n}", "sdb", NOW, ("a line",)))
    assert host.lines(replace(incident(), identifier="I-0")) == []
    assert host.lines(replace(incident(), identifier="I-1")) != []
