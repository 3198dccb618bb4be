#!/bin/sh
# The main job, seen: a program that takes memory until it is refused, under `ration run --mem 1g`, and
# what the tools say of it meanwhile. On the real driver if there is a GPU, else on the software GPU.
set -eu
cd "$(dirname "$0")/.."
build=${RATION_BUILD:-build}
ration=$build/ration

# Total, used and free memory as NVML tells it to whoever asks.
show_nvml() {
	if [ "$GPU" = real ]; then
		nvidia-smi --query-gpu=name,memory.total,memory.used,memory.free --format=csv
		return
	fi
	.venv/bin/python - <<'EOF'
import pynvml
pynvml.nvmlInit()
for i in range(pynvml.nvmlDeviceGetCount()):
    device = pynvml.nvmlDeviceGetHandleByIndex(i)
    memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    print(f"{pynvml.nvmlDeviceGetName(device)}: total {memory.total >> 20} MiB, "
          f"used {memory.used >> 20} MiB, free {memory.free >> 20} MiB")
EOF
}

# Inside the tenant: the hog holds what it got while the views are taken.
inside() {
	out=$(mktemp)
	"$build/examples/hog" --piece 128m --hold 30 >"$out" 2>&1 &
	hog=$!
	trap 'rm -f "$out"; kill $hog 2>/dev/null || true' EXIT
	while kill -0 $hog 2>/dev/null && ! grep -q '^got' "$out"; do
		sleep 0.1
	done
	echo "-- hog, which knows nothing of Ration, takes pieces of 128 MiB:"
	cat "$out"
	echo
	echo "-- NVML, as a tool inside the tenant sees it:"
	show_nvml
	echo
	echo "-- ration ps, as the operator sees it:"
	"$ration" ps
	kill $hog 2>/dev/null || :
	wait $hog 2>/dev/null || :
	grep -q '^got.*OUT_OF_MEMORY' "$out"
}

if [ "${1:-}" = --inside ]; then
	inside
	exit
fi

if nvidia-smi -L >/dev/null 2>&1; then
	GPU=real
	sim=
	echo "== This machine has a GPU: the demo runs on its own driver."
	echo "-- The whole card:"
	show_nvml
else
	GPU=software
	sim=--sim=mem=8g
	echo "== No GPU is here: the demo runs on the software GPU, a card of 8 GiB that exists in memory."
	RATION_SIM_FILE=$(mktemp -u /dev/shm/ration-demo-XXXXXX)
	export RATION_SIM_FILE
	trap 'rm -f "$RATION_SIM_FILE"' EXIT
fi
export GPU
echo
echo "== ration run --mem 1g hog"
# shellcheck disable=SC2086 # $sim is empty or one word
"$ration" run --mem 1g --name demo $sim -- scripts/demo.sh --inside
echo
echo "== The limit held: the program was refused at 1 GiB, and every view told the same."
