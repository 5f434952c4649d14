"""What a user can do about a server that refuses: a login by the text of libpq, a statement by PostgreSQL's code."""

from __future__ import annotations

#: What a server says in English that no further attempt would change, and what to do. In another language (lc_messages) the
#: connection is tried again as one that was lost.
_LOGINS = (
    (
        ("password authentication failed", "no password supplied", "authentication failed for user"),
        "mend 'username' and 'password' (or PGPASSWORD, ~/.pgpass), and run again: nothing is lost",
    ),
    (
        ("no pg_hba.conf entry", "pg_hba.conf rejects connection"),
        "let the server take this user from this machine (pg_hba.conf, then SELECT pg_reload_conf()), or add "
        "'?sslmode=require' to 'url' if it wants SSL; then run again: nothing is lost",
    ),
    (
        ("is not permitted to log in",),
        "run ALTER ROLE … LOGIN, or mend 'username'; then run again: nothing is lost",
    ),
    (
        ("permission denied for database",),
        "run GRANT CONNECT ON DATABASE … TO …, and run again: nothing is lost",
    ),
)
_STATES = {
    "42501": "grant the user what is missing (SELECT on the table; to read changes also ALTER ROLE … REPLICATION, and the "
    "table's ownership where the publication is to be made), and run again: nothing is lost",
    "53100": "make room on the server's disk, and run again: the run goes on where it stopped, and nothing is lost",
    "53200": "give the server more memory, and run again: the run goes on where it stopped, and nothing is lost",
    "57014": "find out who ends it (pg_cancel_backend, or a pool or proxy with a limit); the slot is made once the "
    "transactions that are open have ended (pg_stat_activity); then run again: nothing is lost",
    "53400": "raise the setting that the server names (max_replication_slots, temp_file_limit …), or drop what is not used "
    "any more (SELECT slot_name, active FROM pg_replication_slots); then run again: nothing is lost",
}


def help_of_refusal(text: str) -> str | None:
    """What to do about a login that was refused for good; None: it may be better the next time.

    >>> help_of_refusal('FATAL:  role "etl" is not permitted to log in')
    "run ALTER ROLE … LOGIN, or mend 'username'; then run again: nothing is lost"
    >>> help_of_refusal("FATAL:  sorry, too many clients already")
    """
    return next((help_ for parts, help_ in _LOGINS if any(part in text for part in parts)), None)


def help_of_state(state: str) -> str | None:
    """What to do about a statement that was refused with a code of PostgreSQL; None: nothing that is known here.

    >>> help_of_state("53100")
    "make room on the server's disk, and run again: the run goes on where it stopped, and nothing is lost"
    """
    return _STATES.get(state)
