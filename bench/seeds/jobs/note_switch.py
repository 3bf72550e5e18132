"""The hook that switches hosts: it writes down when. note_switch.py FILE park|wake HOST ADDRESS"""

import sys
import time

with open(sys.argv[1], "a") as file:
    file.write(f"{time.time()} {sys.argv[2]} {sys.argv[3]}\n")
