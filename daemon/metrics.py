"""Metrics of the daemon itself, for rules/iowarden.yaml; each section names its producer. Units.

Those of the process (CPU time, memory) are in daemon/process_metrics.py: no rule uses them.
"""

from __future__ import annotations

from iowarden.collectors.model import Family
from iowarden.daemon.probe_client import metrics as probe
from iowarden.rules import io_usage, selftest_schedule
from iowarden.rules.events import event_counters
from iowarden.rules.incidents import silences
from iowarden.rules.scan import last_read
from iowarden.rules.scan import plan as scan_plan

# --- daemon/notify/delivery.py

MAILS = Family(
    "iowarden_notifications_total",
    "counter",
    "Notifications accepted by a receiver, and failed attempts, by outcome.",
)
MAILS_WAITING = Family(
    "iowarden_notifications_waiting",
    "gauge",
    "Notifications in the outbox, including refused ones; absent for Alertmanager and ping.",
)
MAILS_REFUSED = Family(
    "iowarden_notifications_refused",
    "gauge",
    "Notifications that all servers refuse for a recipient, or refused alerts; one is retried.",
)
MAILS_DISCARDED = Family(
    "iowarden_notifications_discarded_total",
    "counter",
    "Mails that were deleted because the Maildir was full.",
)
MAIL_OLDEST_UNSENT = Family(
    "iowarden_notifications_oldest_unsent_seconds",
    "gauge",
    "Age of the oldest notification waiting for delivery, or 0.",
)
MAIL_LAST_DELIVERED = Family(
    "iowarden_notifications_last_delivered_age_seconds",
    "gauge",
    "Seconds since the receiver, as configured now, last accepted a notification; missing before,"
    " and for a Maildir.",
)
STATE_UNWRITTEN = Family(
    "iowarden_state_unwritten_seconds",
    "gauge",
    "How long a change has waited to be written to state.db, or 0.",
)
STATE_BLOCKED = Family(
    "iowarden_state_blocked_seconds",
    "gauge",
    "For how long the current access to state.db has not returned, or 0: its disk hangs.",
)

# --- daemon/service

INCIDENTS_OPEN = Family("iowarden_incidents_open", "gauge", "Incidents that are not closed yet.")
INCIDENTS_UNRESOLVED = Family(
    "iowarden_incidents_unresolved",
    "gauge",
    "Unresolved incidents, by severity; incidents of events only count until they are closed.",
)
INCIDENTS_UNNOTIFIED = Family(
    "iowarden_incidents_unnotified",
    "gauge",
    "Open incidents of warning or worse of which no receiver accepted a notification. A Maildir is"
    " no receiver; what is silenced or acknowledged does not count.",
)
LOG_LOST = Family(
    "iowarden_log_messages_lost_total", "counter", "Log messages that could not be written."
)
RELOAD_SUCCESSFUL = Family(
    "iowarden_config_last_reload_successful",
    "gauge",
    "Whether the last reload of the configuration succeeded (1) or failed (0).",
)
RELOAD_SUCCESS_TIMESTAMP = Family(
    "iowarden_config_last_reload_success_timestamp_seconds",
    "gauge",
    "When the configuration in force was read, as Unix time.",
)
RULE_FILE_PROBLEMS = Family(
    "iowarden_rule_file_problems",
    "gauge",
    "Problems of a rule file of the user that is therefore not loaded; absent if there are none.",
)
CERTIFICATE_START = Family(
    "iowarden_http_certificate_start_timestamp_seconds",
    "gauge",
    "From when the certificate of '/metrics' is valid, as Unix time; absent without TLS.",
)
CERTIFICATE_EXPIRY = Family(
    "iowarden_http_certificate_expiry_timestamp_seconds",
    "gauge",
    "When the certificate of '/metrics' expires, as Unix time; absent without TLS.",
)
STATE_UNREADABLE = Family(
    "iowarden_state_unreadable",
    "gauge",
    "Parts of state.db that are not used, by document: files with unreadable parts (unreadable),"
    " or 1 if a newer version wrote it (newer).",
)
ALERT_INFO = Family(
    "iowarden_alert_info",
    "gauge",
    "1 for each firing or unknown alert in iowarden_alerts, with the incident it belongs to and its"
    " summary of when its state changed last.",
)
UEVENTS = Family("iowarden_uevents_total", "counter", "Uevents of block devices received.")
UEVENTS_LOST = Family(
    "iowarden_uevents_lost_total",
    "counter",
    "How often uevents of block devices were lost; all devices are then listed again.",
)
HISTORY_LOST = Family(
    "iowarden_history_records_lost_total",
    "counter",
    "Drive values and storage events discarded because history.db could not be written.",
)

FAMILIES = (
    *(MAILS, MAILS_WAITING, MAILS_REFUSED, MAILS_DISCARDED),
    *(MAIL_OLDEST_UNSENT, MAIL_LAST_DELIVERED, STATE_UNWRITTEN, STATE_BLOCKED),
    *(INCIDENTS_OPEN, INCIDENTS_UNRESOLVED, INCIDENTS_UNNOTIFIED, LOG_LOST, RELOAD_SUCCESSFUL),
    RELOAD_SUCCESS_TIMESTAMP,
    RULE_FILE_PROBLEMS,
    *(STATE_UNREADABLE, ALERT_INFO, UEVENTS, UEVENTS_LOST),
    *(CERTIFICATE_START, CERTIFICATE_EXPIRY),
    *silences.FAMILIES,
    *selftest_schedule.FAMILIES,
    *scan_plan.FAMILIES,
    *last_read.FAMILIES,
    *event_counters.FAMILIES,
    *probe.FAMILIES,
    *io_usage.FAMILIES,
    HISTORY_LOST,
)
"""In the order in which they are shown."""


_UNITS = (
    ("_bytes_per_second", "bytes per second"),
    ("_timestamp_seconds", "Unix time, seconds"),
    ("_start_time_seconds", "Unix time, seconds"),
    ("_seconds", "seconds"),
    ("_bytes", "bytes"),
    ("_celsius", "degrees Celsius"),
    ("_volts", "volts"),
    ("_rpm", "revolutions per minute"),
    ("_percent", "percent"),
    ("_ratio", "ratio"),
    ("_info", "1"),
)


def unit(name: str) -> str:
    """Return the unit of a family, which is the end of its name; '' if it has none."""
    own = name.removesuffix("_total")
    return next((each for end, each in _UNITS if own.endswith(end)), "")
