"""The application at the site that orders replays: it journals every entry and every rollback in its own table."""

import lrq
from tests.system.replaying import Journal, UndoingJournal

OPTIONS = {"poll_interval": 0.05, "backoff": 0.01, "lease_ttl": 1.0}


undoing = lrq.listener("policy", max_batch_entries=5, **OPTIONS)(Journal().process_updates_in_log_entry_sync)
undoing.on_rollback(UndoingJournal().on_rollback)
plain = lrq.listener("policy", max_batch_entries=5, **OPTIONS)(Journal().process_updates_in_log_entry_sync)
