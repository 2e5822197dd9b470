"""Ways to bring entries to several databases, behind one port (`benchmarks.contender`)."""
