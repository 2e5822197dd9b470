"""The source role of a server: takes ticks, trims the log, begins and ends sessions."""
