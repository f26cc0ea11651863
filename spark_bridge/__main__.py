"""``python -m spark_bridge``: see `spark_bridge.cli`."""

import sys

from spark_bridge.cli import main

if __name__ == "__main__":
    sys.exit(main())
