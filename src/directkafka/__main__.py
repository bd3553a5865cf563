"""``python -m directkafka``: the same as the command ``directkafka``."""

from directkafka.cli import main

if __name__ == "__main__":
    main()
