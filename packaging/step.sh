# shellcheck shell=sh
# Sourced: announces each step of a test with its time, and names the one that failed.
# Sets 'what'; needs 'suite'.

step() {
    what=$1
    shift
    echo "== $suite: $what"
    began=$(date +%s)
    "$@" </dev/null
    echo "== $suite: $what: $(($(date +%s) - began)) s"
}

# The first process of a PID namespace ignores signals without a handler.
trap 'exit 130' INT
trap '[ $? -eq 0 ] || echo "== $suite: FAILED: $what" >&2' EXIT
