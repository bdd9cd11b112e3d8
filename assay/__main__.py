"""`python -m assay`: the same as the `assay` script."""

from assay.cli import main

if __name__ == "__main__":
    main()
