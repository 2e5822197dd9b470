"""The contenders, behind one port (`benchmarks.contender`)."""
