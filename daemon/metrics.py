"""Metrics of the daemon itself, which rules/iowarden.yaml judges; each is made by who is named.

The process's own (processor time, memory) are in daemon/process_metrics.py: no rule sees these.
"""

from __future__ import annotations

from iowarden.collectors.model import Family
from iowarden.daemon.probe_client import metrics as probe
from iowarden.rules import selftest_schedule
from iowarden.rules.events import event_counters
from iowarden.rules.incidents import silences

# --- daemon/notify/delivery.py

MAILS = Family(
    "iowarden_mails_total", "counter", "Mails taken by the server, or attempts that failed."
)
MAILS_WAITING = Family("iowarden_mails_waiting", "gauge", "Mails in the outbox.")
MAILS_REFUSED = Family(
    "iowarden_mails_refused", "gauge", "Mails kept because everybody left refused them for good."
)
MAIL_OLDEST_UNSENT = Family(
    "iowarden_mail_oldest_unsent_seconds", "gauge", "Age of the oldest mail still tried, or 0."
)
STATE_UNWRITTEN = Family(
    "iowarden_state_unwritten_seconds",
    "gauge",
    "Seconds that something has waited to be written to state.db, or 0.",
)

# --- daemon/service

INCIDENTS_OPEN = Family("iowarden_incidents_open", "gauge", "Incidents that are not closed.")
INCIDENTS_UNRESOLVED = Family(
    "iowarden_incidents_unresolved",
    "gauge",
    "Incidents that are not over, by severity; what only events tell of until it is closed.",
)
LOG_LOST = Family("iowarden_log_lost_total", "counter", "Log lines that nobody took.")
RELOAD_SUCCESSFUL = Family(
    "iowarden_config_last_reload_successful",
    "gauge",
    "1 when the last attempt to read the configuration succeeded.",
)
RELOAD_SUCCESS_TIMESTAMP = Family(
    "iowarden_config_last_reload_success_timestamp_seconds",
    "gauge",
    "Unix time at which the configuration in force was read.",
)
STATE_UNREAD = Family(
    "iowarden_state_unread",
    "gauge",
    "What of a document of state.db is not used: texts with what could not be read (unreadable), or"
    " 1 where a newer version wrote it (newer).",
)
UEVENTS = Family("iowarden_uevents_total", "counter", "Announcements of block devices.")
UEVENTS_LOST = Family(
    "iowarden_uevents_lost_total",
    "counter",
    "Times that announcements of block devices were lost; the devices are then listed anew.",
)
HISTORY_LOST = Family(
    "iowarden_history_lost_total",
    "counter",
    "Values of drives and storage events that were given up: history.db could not be written.",
)

FAMILIES = (
    *(MAILS, MAILS_WAITING, MAILS_REFUSED, MAIL_OLDEST_UNSENT, STATE_UNWRITTEN),
    *(INCIDENTS_OPEN, INCIDENTS_UNRESOLVED, LOG_LOST, RELOAD_SUCCESSFUL, RELOAD_SUCCESS_TIMESTAMP),
    *(STATE_UNREAD, UEVENTS, UEVENTS_LOST),
    *silences.FAMILIES,
    *selftest_schedule.FAMILIES,
    *event_counters.FAMILIES,
    *probe.FAMILIES,
    HISTORY_LOST,
)
"""In the order in which they are shown."""
