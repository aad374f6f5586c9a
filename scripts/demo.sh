#!/usr/bin/env bash
# The main commands from end to end: prepare, train, evaluate, translate, inspect. `make demo` runs this script, which
# prints each command as a user would type it. It uses Multi30k, from the folder in TFM_MULTI30K_DIR or else by download.
# If Multi30k is not available, a line says so, and the embedded corpus takes its place.
set -eo pipefail
PATH="$(dirname "$0")/../.venv/bin:$PATH"
PS4='$ '

run=demo split=(--split test_2016_flickr)
sentences=("Ein Hund läuft am Strand." "Zwei Männer spielen Fußball im Park."
    "Eine junge Frau in einem roten Kleid sitzt auf einer Bank.")
set -x
if ! tfm prepare --config demo; then
    { set +x; } 2>/dev/null
    echo "Multi30k is not available, so this demo uses the embedded corpus instead."
    run=demo-captions split=()
    sentences=("Ein kleiner Hund läuft durch den Park." "Am Strand spielen zwei Kinder."
        "Die junge Frau schaut einen alten Mann an.")
    set -x
    tfm prepare --config demo-captions
fi
tfm train --config "$run"
tfm evaluate --run "$run" "${split[@]}"
tfm translate --run "$run" "${sentences[@]}"
tfm inspect --run "$run" --kind cross --output "runs/$run/inspect.png" "${sentences[2]}"
{ set +x; } 2>/dev/null
echo "The whole demo took $SECONDS s."
