"""`python -m benchmarks`."""

from benchmarks.main import main

if __name__ == "__main__":
    main()
