# shellcheck shell=bash
# Sourced by those that run a test program elsewhere than where it was compiled.

# test_program PACKAGE NAME: compiles the tests NAME of a package; the path of the program.
test_program() {
    cargo test --locked --quiet --profile checked --package "$1" --test "$2" --no-run --message-format=json |
        python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == sys.argv[1]:
        print(message["executable"])' "$2"
}
