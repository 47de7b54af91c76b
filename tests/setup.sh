#!/bin/bash
# Brings what testing needs; does nothing where it is there already. The functions of packaging/setup.sh, and these:
#
#   tests/setup.sh                  everything that most tests need, then prints the variables it sets
#   tests/setup.sh FUNCTION...      only these
#   . tests/setup.sh                for scripts: the functions, nothing run
#
# setup_test_packages  Debian/Ubuntu packages: what the build and the tests need
# setup_hosts          what hosts bring that the recorder is tested in; goes on without what cannot be had
# setup_servers        debuggers and a virtual environment with servers: the long form of tests/faults/hosts runs them
# setup_pytest         sets VRAMTRACE_PYTHON: an interpreter with pytest, for what needs no PyTorch
# setup_readers        sets VRAMTRACE_READERS: an interpreter with what reads our exports, runs examples/fleet, drives a browser,
#                      speaks MCP and checks our Python and JavaScript; and installs the browser
# setup_packaging      sets VRAMTRACE_PACKAGING: an interpreter with what builds our wheel and runs notebooks; and installs the
#                      shells whose completions are tested
# setup_pythons        Python 3.14 and 3.15 beside the system's, from Debian sid's packages: tests/python and tests/golden find them
# setup_new_torch      PyTorch for each of these, in virtual environments beside them: tests/torch/pythons.sh trains with them
# setup_frameworks     JAX (and Optax, Flax), ONNX Runtime, CuPy, RMM (0.7 GB to load), TensorFlow (0.7 GB), Paddle (0.2 GB), llama.cpp (0.1 GB), in virtual
#                      environments: tests/frameworks runs them, and is skipped without
# setup_paddle_gpu     PaddlePaddle for GPUs (0.8 GB to load, 4 GB on disk): one more test of tests/frameworks
# setup_megengine      MegEngine's last wheel (0.9 GB to load, 1.4 GB on disk), which needs Python 3.10: one more test of tests/frameworks
# setup_aarch64        sets VRAMTRACE_AARCH64, a folder with Debian's libraries and Python for AArch64 (0.3 GB) and an aarch64.ini for
#                      meson, and installs the cross compiler and qemu: tests/aarch64/run.sh. On Debian alone
# setup_job_launchers  Ray and DeepSpeed (0.2 GB to load) in a folder beside PyTorch's: tests/torch/test_launched.py, skipped without
# setup_driver         VERSION: NVIDIA's driver libraries of Debian's non-free component, in a folder of the cache: tests/golden/drivers.py
# setup_workers        sets setup_workers, options of pytest for as many processes as there are cores
# setup_trainers       setup_torch, and into the same environment pytest and what people train with on top of PyTorch
# setup_torch_of       VERSION: sets VRAMTRACE_PYTHON: another PyTorch, with the same (2 GB on disk)

. "$(dirname "${BASH_SOURCE[0]}")/../packaging/setup.sh"

setup_torchvision=torchvision==0.26.0
setup_python_packages="filelock typing_extensions sympy networkx jinja2 fsspec numpy pillow pytest"
# What people train with, and all that it imports. Every one is named and pinned, since pip may not look at their
# dependencies: it would bring PyTorch's NVIDIA packages, which the stand-in replaces.
setup_trainers_packages="accelerate==1.15.0 lightning==2.6.6 lightning-utilities==0.15.3 peft==0.21.2 pytorch-lightning==2.6.6
    torchmetrics==1.9.0 transformers==5.23.0 diffusers==0.42.1 triton==3.6.0
    annotated-doc==0.0.7 anyio==4.16.0 certifi==2026.10.18 charset-normalizer==3.5.2 click==8.5.1 h11==0.16.0
    hf-xet==1.8.0 httpcore2==2.16.2 httpx2==2.16.2 huggingface_hub==2.4.0 idna==3.20 markdown-it-py==4.3.0 mdurl==0.1.2
    psutil==7.2.2 Pygments==2.21.0 PyYAML==6.0.3 regex==2026.11.15 requests==2.34.2 rich==15.0.0 safetensors==0.8.0
    shellingham==1.5.4 tokenizers==0.23.3 tqdm==4.70.1 truststore==0.10.5 typer==0.29.2 urllib3==2.8.0 uvicorn==0.54.0"
# Data sets by their names, and what that imports.
setup_data_packages="datasets==5.2.0 dill==0.4.1 multiprocess==0.70.19 pandas==3.1.1 pyarrow==26.0.1 python-dateutil==4.0.0 tzdata==2026.6
    xxhash==4.1.0 aiohappyeyeballs==2.7.1 aiohttp==3.14.5 aiosignal==1.4.0 attrs==26.1.0 frozenlist==1.8.0 multidict==7.2.1
    propcache==0.5.4 yarl==1.25.1"
setup_test_debian_packages="libunwind-dev python3-dev libcriterion-dev debootstrap zstd"
# What programs bring that the recorder runs in: allocators of their own, C++, a tracer; a second compiler, and a pager. Tests of one that is not there are
# skipped; so are those that only the long form of tests/faults/hosts runs (setup_servers).
setup_allocators="libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0 g++ strace clang libclang-rt-dev less"
setup_launchers="openmpi-bin mpich slurm-wlm" # of jobs of many ranks
setup_debuggers="gdb valgrind nodejs default-jdk-headless"

setup_cross="gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static"
setup_aarch64_packages="libc6-dev libzstd-dev libdw-dev libelf-dev libcjson-dev libxxhash-dev libdeflate-dev libprotobuf-c-dev libsqlite3-dev
    libncurses-dev libcriterion-dev libssl3 python3-dev python3-pytest python3-venv binutils gcc g++ bash coreutils grep sed
    base-passwd git hostname less libc-bin ncurses-base procps util-linux"

setup_browser_packages="chromium chromium-driver nodejs node-typescript golang-go"
setup_readers_packages="axe-core-python==0.1.0 dask==2026.8.0 distributed==2026.8.0 duckdb==2.0.0 jsonschema==4.26.0 mcp==2.3.0 mypy==2.4.1 numpy oxlint==1.89.0 pandas==3.1.1 pillow prometheus-client==0.26.0 protobuf==7.36.2
    pyarrow==26.0.1 pypdfium2==5.15.2 pytest pytest-xdist==3.8.0 ruff==0.17.6 selenium==4.51.0 perfetto==0.59.1 viztracer==1.1.1"

setup_new_pythons="3.14 3.15"
setup_new_torch_versions="2.11.0 2.15.0" # one for each of them

# NVIDIA's driver libraries without a driver: version, Debian suite, packages of its non-free component.
setup_drivers_packages="390 sid libnvidia-legacy-390xx-cuda1 libnvidia-legacy-390xx-ml1 libnvidia-legacy-390xx-fatbinaryloader
418 sid libnvidia-tesla-418-cuda1 libnvidia-tesla-418-ml1 libnvidia-tesla-418-fatbinaryloader
450 sid libnvidia-tesla-450-cuda1 libnvidia-tesla-450-ml1
460 sid libnvidia-tesla-460-cuda1 libnvidia-tesla-460-ml1
470 sid libnvidia-tesla-470-cuda1 libnvidia-tesla-470-ml1
525 sid libnvidia-tesla-cuda1 libnvidia-tesla-ml1
535 bookworm libcuda1 libnvidia-ml1
550 sid libcuda1 libnvidia-ml1
555 experimental libcuda1 libnvidia-ml1"

setup_shells="zsh fish"
setup_packaging_packages="meson-python==0.22.1 meson==1.12.1 ninja==1.13.2 uv==0.13.9 ipython ipykernel jupyter_client"

# Frameworks beside PyTorch, as they come from PyPI without NVIDIA's packages: JAX, ONNX Runtime, CuPy and RMM together, as they are small.
setup_frameworks_packages="cuda-bindings==13.5.0 cuda-core==1.2.2 cuda-pathfinder==1.9.0 cupy-cuda13x==14.2.0 fastrlock==0.8.4
    flatbuffers==25.12.19 jax==0.10.2 jax-cuda13-pjrt==0.10.2 jax-cuda13-plugin==0.10.2 jaxlib==0.10.2 librmm-cu13==26.10.0
    ml_dtypes==0.6.0 numpy==2.4.6 nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 onnx==1.23.2 onnxruntime-gpu==1.31.1 opt_einsum==3.4.0 packaging==26.3
    protobuf==7.36.2 rapids-logger==0.3.0 rmm-cu13==26.10.0 scipy==1.17.1 typing_extensions==4.16.0"
# What people train with on top of JAX. In a folder of its own: programs that use it have that on PYTHONPATH.
setup_jax_libraries_packages="absl-py==2.5.1 flax==0.12.8 markdown-it-py==4.3.0 mdurl==0.1.2 msgpack==1.2.4 optax==0.2.8
    Pygments==2.21.0 PyYAML==6.0.3 rich==15.0.0 treescope==0.1.10"
setup_tensorflow_packages="absl-py==2.5.1 astunparse==1.6.3 certifi==2026.10.18 charset-normalizer==3.5.2 flatbuffers==25.12.19 gast==0.7.0
    google-pasta==0.2.0 grpcio==1.85.1 h5py==3.14.0 idna==3.20 keras==3.15.1 libclang==18.1.1 markdown-it-py==4.3.0 mdurl==0.1.2
    ml_dtypes==0.6.0 namex==0.1.0 numpy==2.4.6 opt_einsum==3.4.0 optree==0.20.0 packaging==26.3 protobuf==7.36.2
    Pygments==2.21.0 requests==2.34.2 rich==15.0.0 six==1.17.0 tensorflow==2.21.0 termcolor==3.3.0 typing_extensions==4.16.0
    urllib3==2.8.0 wrapt==2.5.2"

# For processors: paddlepaddle-gpu has NVIDIA's runtime inside.
setup_paddle_packages="anyio==4.16.0 certifi==2026.10.18 h11==0.16.0 httpcore==1.0.9 httpx==0.28.1 idna==3.20 networkx==3.6.1 numpy==2.4.6
    opt-einsum==3.3.0 paddlepaddle==3.3.1 pillow==13.0.0 protobuf==7.36.2 safetensors==0.8.0 setuptools==65.5.0 typing_extensions==4.16.0"
setup_megengine_packages="MegEngine==1.13.0 Deprecated==1.3.1 bcrypt==5.0.0 boto3==1.44.5 botocore==1.44.5 certifi==2026.10.18 cffi==2.1.1 charset-normalizer==3.5.2
    cryptography==50.0.2 filelock==4.1.0 idna==3.20 invoke==3.0.3 jmespath==1.1.0 megfile==2.0.5 mprop==0.17.0 numpy==1.23.5
    opencv-python==4.6.0.66 packaging==26.3 paramiko==5.1.0 psutil==7.2.2 pyarrow==11.0.0 pycparser==3.11 PyNaCl==1.6.2
    python-dateutil==2.9.0.post0 requests==2.34.2 s3transfer==0.19.3 six==1.17.0 tabulate==0.10.0 tqdm==4.70.1
    typing_extensions==4.16.0 urllib3==2.8.0 wheel==0.48.0 wrapt==2.5.2"
setup_paddle_gpu_packages="anyio==4.16.0 astor==0.8.1 certifi==2026.10.18 decorator==5.3.1 h11==0.16.0 httpcore==1.0.9 httpx==0.28.1 idna==3.20
    numpy==1.26.4 opt-einsum==3.3.0 paddlepaddle-gpu==2.6.2 pillow==13.0.0 protobuf==3.20.3 typing_extensions==4.16.0"
# llama.cpp as a package has it: its libraries alone are used, so any Python serves.
setup_llama_packages="gguf==0.19.0 numpy==2.4.6 PyYAML==6.0.3 tqdm==4.70.1"
setup_llama_wheel=cyllama-cuda12==0.7.0

# What launches jobs of PyTorch, and what that imports beside setup_trainers_packages.
setup_job_launchers_packages="annotated-types==0.8.0 attrs==26.1.0 deepspeed==0.19.8 einops==0.8.2 hjson==3.1.0 jsonschema==4.26.0
    jsonschema-specifications==2025.9.1 msgpack==1.2.4 ninja==1.13.2 pandas==3.1.1 protobuf==7.36.2 py-cpuinfo==9.0.0 pyarrow==26.0.1
    pydantic==2.14.3 pydantic_core==2.50.4 python-dateutil==4.0.0 ray==2.60.0 referencing==0.37.0 rpds-py==2026.9.1
    typing-inspection==0.4.5 tzdata==2026.6"

# For trainings on two ranks, without what setup_trainers brings.
setup_sharded_trainers_packages="annotated-types==0.8.0 deepspeed==0.19.8 einops==0.8.2 hjson==3.1.0 megatron-core==0.16.1 msgpack==1.2.4
    ninja==1.13.2 py-cpuinfo==9.0.0 pydantic==2.14.3 pydantic_core==2.50.4 typing-inspection==0.4.5"

setup_servers_packages="greenlet==3.5.6 gevent==26.9.0 gunicorn==27.0.1 uWSGI==2.0.31 ray==2.60.0"

setup_aarch64() { # [SUITE]: of another Debian than this one
    local missing suite
    suite=$(. /etc/os-release && [ "$ID" = debian ] && echo "${1:-$VERSION_CODENAME}") && missing=$(setup_not_installed $setup_cross) ||
        { setup_say "AArch64's libraries are taken from Debian, by a Debian system; this is none"; return 1; }
    [ -z "$missing" ] || setup_install $missing || return 1
    export VRAMTRACE_AARCH64=$VRAMTRACE_CACHE/aarch64-$suite
    [ -e "$VRAMTRACE_AARCH64/aarch64.ini" ] || setup_locked setup_run "downloading Debian's packages for AArch64" setup_make_aarch64 "$suite" ||
        { setup_say "could not make $VRAMTRACE_AARCH64 ($(setup_why))"; return 1; }
}

# With an apt of its own, so that this system's knows nothing of another architecture; no package's script runs.
setup_make_aarch64() { # SUITE
    local part=$VRAMTRACE_AARCH64.part apt=$VRAMTRACE_AARCH64.apt folder package name
    local -a own=(apt-get -q -o "Dir::State=$apt" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt" -o "Dir::Etc::sourcelist=$apt/sources"
        -o Dir::Etc::sourceparts=- -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "APT::Sandbox::User=$(id -un)")
    [ -e "$VRAMTRACE_AARCH64/aarch64.ini" ] && return 0
    rm -rf "$part"
    mkdir -p "$apt"/{lists,archives}/partial || return 1
    : >"$apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $1 main" >"$apt/sources"
    "${own[@]}" update && "${own[@]}" install -y --no-install-recommends --download-only $setup_aarch64_packages || return 1
    for folder in bin lib sbin; do mkdir -p "$part/usr/$folder" && ln -s "usr/$folder" "$part/$folder"; done
    for package in "$apt"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --no-same-owner --keep-directory-symlink -C "$part" || return 1
    done
    for name in sh:bash cc:gcc c++:g++; do ln -sf "${name#*:}" "$part/usr/bin/${name%:*}"; done # packages' scripts would, and the next
    find "$part/usr/lib" -type l -lname '/*' -printf '%p %l\n' | while read -r name folder; do ln -sfr "$part$folder" "$name"; done # not this system's
    for name in passwd group; do cp "$part/usr/share/base-passwd/$name.master" "$part/etc/$name" || return 1; done
    printf "[constants]\nsystem = '%s'\n" "$VRAMTRACE_AARCH64" >"$part/aarch64.ini"
    rm -rf "$apt" "$VRAMTRACE_AARCH64" && mv "$part" "$VRAMTRACE_AARCH64"
}

# PyTorch as it is for AArch64's machines with a GPU, into that folder, and pytest's workers.
setup_aarch64_torch() {
    local version
    setup_venv && version=$(echo "$VRAMTRACE_AARCH64"/usr/bin/python3.*[0-9]) &&
        setup_pip "downloading PyTorch $setup_torch_version for AArch64 (0.4 GB)" install --no-compile --no-deps --only-binary :all: \
            --python-version "${version##*python}" --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
            --target "$VRAMTRACE_AARCH64/opt/torch" "torch==$setup_torch_version" $setup_torch_needs pytest-xdist==3.8.0 execnet==2.1.2
}

setup_test_packages() { setup_packages $setup_test_debian_packages; }

setup_hosts() {
    local missing
    command -v dpkg-query >/dev/null || return 0
    missing=$(setup_not_installed $setup_allocators $setup_launchers)
    [ -z "$missing" ] || setup_install $missing || setup_say "without them some tests are skipped:$missing"
}

setup_servers() {
    local base missing
    if command -v dpkg-query >/dev/null; then
        missing=$(setup_not_installed $setup_debuggers)
        command -v javac >/dev/null && missing=${missing/ default-jdk-headless/}
        command -v node >/dev/null && missing=${missing/ nodejs/}
        [ -z "${missing// /}" ] || setup_install $missing || setup_say "without them some hosts are left out:$missing"
    fi
    setup_servers_venv=$VRAMTRACE_CACHE/venv-hosts
    [ "$(cat "$setup_servers_venv/.servers" 2>/dev/null)" = "$setup_servers_packages" ] && return 0
    base=$(setup_base_python) || return 1
    setup_locked setup_install_servers "$base"
}

setup_install_servers() {
    [ -x "$setup_servers_venv/bin/python" ] || "$1" -m venv "$setup_servers_venv" >&2 || return 1
    setup_say "installing $setup_servers_packages into $setup_servers_venv"
    "$setup_servers_venv/bin/python" -m pip install -q --disable-pip-version-check $setup_servers_packages >&2 || {
        setup_say "could not install them: the hosts that need them are left out"
        return 1
    }
    printf '%s' "$setup_servers_packages" >"$setup_servers_venv/.servers"
}

setup_readers() {
    local base missing
    if command -v dpkg-query >/dev/null; then
        missing=$(setup_not_installed $setup_browser_packages)
        command -v node >/dev/null && missing=${missing/ nodejs/}
        [ -z "${missing// /}" ] || setup_install $missing || { setup_say "the page's tests need these:$missing"; return 1; }
    fi
    setup_readers_venv=$VRAMTRACE_CACHE/venv-readers
    if [ "$(cat "$setup_readers_venv/.readers" 2>/dev/null)" != "$setup_readers_packages" ]; then
        base=$(setup_base_python) && setup_locked setup_install_readers "$base" || return 1
    fi
    export VRAMTRACE_READERS=$setup_readers_venv/bin/python
}

setup_install_readers() {
    [ "$(cat "$setup_readers_venv/.readers" 2>/dev/null)" = "$setup_readers_packages" ] && return 0
    [ -x "$setup_readers_venv/bin/python" ] || "$1" -m venv "$setup_readers_venv" >&2 || return 1
    setup_say "installing $setup_readers_packages into $setup_readers_venv"
    "$setup_readers_venv/bin/python" -m pip install -q --disable-pip-version-check $setup_readers_packages >&2 || {
        setup_say "could not install them: the tests of exports and of the page cannot run"
        return 1
    }
    printf '%s' "$setup_readers_packages" >"$setup_readers_venv/.readers"
}

# Debian sid's packages in a folder, with the C library that they need, which is newer than most systems'. They run from there:
# each program's loader and libraries are those of the folder, found by its own paths. Nothing of the system is changed.
setup_pythons() {
    local version
    setup_pythons_folder=$VRAMTRACE_CACHE/pythons-${setup_new_pythons// /-}
    for version in $setup_new_pythons; do
        "$setup_pythons_folder/usr/bin/python$version" -c 'import ctypes, ssl' 2>/dev/null || {
            setup_locked setup_install_pythons && return 0
            setup_say "without Python $setup_new_pythons the tests leave them out"
            return 1
        }
    done
}

# Sets `apt`, an apt-get with its own sources, lists and cache below FOLDER; the system's stay as they are.
setup_private_apt() { # FOLDER COMPONENT SUITE...
    local folder=$1 component=$2 keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror suite
    shift 2
    command -v apt-get >/dev/null && mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 '/debian/$') && [ -e "$keyring" ] ||
        return 1
    rm -rf "$folder"
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" || return 1
    touch "$folder/installed"
    for suite; do echo "deb [signed-by=$keyring] $mirror $suite $component"; done >"$folder/sources.list"
    apt=(timeout 300 apt-get -q -o APT::Sandbox::User= -o Acquire::Check-Valid-Until=false
        -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null
        -o Dir::Etc::PreferencesParts=/dev/null -o Dir::State::Lists="$folder/lists" -o Dir::State::Status="$folder/installed"
        -o Dir::Cache="$folder/cache")
}

setup_install_pythons() {
    local folder=$setup_pythons_folder packages=$setup_pythons_folder.packages version missing
    local -a apt
    setup_private_apt "$packages" main sid || {
        setup_say "Python $setup_new_pythons come from Debian, of which apt has no mirror or no key here"
        return 1
    }
    missing=$(setup_not_installed patchelf)
    [ -z "$missing" ] || setup_install $missing || return 1
    setup_say "installing Python $setup_new_pythons of Debian sid into $folder"
    rm -rf "$folder"
    mkdir -p "$folder" || return 1
    "${apt[@]}" update >"$packages/log" 2>&1 &&
        "${apt[@]}" install -y --no-install-recommends --download-only $(for version in $setup_new_pythons; do
            echo "python$version-venv python$version-dev libpython$version"
        done) >>"$packages/log" 2>&1 ||
        { setup_say "apt could not bring them: see $packages/log"; return 1; }
    for version in "$packages"/cache/archives/*.deb; do
        dpkg-deb -x "$version" "$folder" || return 1
    done
    setup_relocate_pythons "$folder" && rm -rf "$packages"
}

# Only the libraries, in a folder for each driver; `package` there says which package they are of.
setup_driver() { # VERSION
    setup_driver_folder=$VRAMTRACE_CACHE/drivers/$1
    [ -e "$setup_driver_folder/package" ] || setup_locked setup_install_driver "$1"
}

setup_install_driver() { # VERSION
    local folder=$VRAMTRACE_CACHE/drivers/$1 work=$VRAMTRACE_CACHE/drivers/$1.packages row name suite package
    local -a apt packages=()
    row=$(grep "^$1 " <<<"$setup_drivers_packages") || { setup_say "no driver $1 is known"; return 1; }
    read -r _ suite row <<<"$row"
    for name in $row; do packages+=("$name/$suite"); done
    setup_private_apt "$work" non-free "$suite" && "${apt[@]}" update >"$work/log" 2>&1 &&
        (cd "$work" && "${apt[@]}" download "${packages[@]}" >>log 2>&1) || {
        setup_say "NVIDIA's driver $1 is not to be had: Debian's non-free component of $suite, by apt"
        return 1
    }
    for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/files" || return 1; done
    rm -rf "$folder"
    mkdir -p "$folder" &&
        find "$work/files" \( -name 'lib*.so.1' -o -name 'libnvidia-fatbinaryloader.so.*' \) -exec cp -L -t "$folder" {} + &&
        dpkg-deb -f "$(ls "$work"/*cuda1_*.deb)" Package Version | sed 's/.*: //' | paste -sd ' ' >"$folder/package" && rm -rf "$work"
}

setup_relocate_pythons() {
    local folder=$1 program libraries loader
    libraries=$(dirname "$(ls "$folder"/usr/lib/*/libc.so.6)")
    loader=$(ls "$libraries"/ld-linux-*.so.*)
    for program in $setup_new_pythons; do
        # In two steps: one alone would write a wrong path. Then the C library's parts are named, so that nothing that is
        # loaded later brings the system's.
        patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$folder/usr/bin/python$program" &&
            patchelf --add-needed libpthread.so.0 --add-needed libdl.so.2 --add-needed librt.so.1 \
                --add-needed libutil.so.1 "$folder/usr/bin/python$program" || return 1
        "$folder/usr/bin/python$program" -c 'import ctypes, ssl' || { setup_say "Python $program does not run"; return 1; }
    done
}

setup_new_torch() {
    local version
    setup_pythons || return 1
    set -- $setup_new_torch_versions
    for version in $setup_new_pythons; do
        [ -e "$VRAMTRACE_CACHE/venv-torch-$1-py$version/.done" ] ||
            setup_locked setup_install_new_torch "$version" "$VRAMTRACE_CACHE/venv-torch-$1-py$version" "$1" || return 1
        shift
    done
}

setup_frameworks() {
    local base
    base=$(setup_base_python) && setup_locked setup_install_frameworks "$base" frameworks $setup_frameworks_packages &&
        setup_locked setup_install_frameworks "$base" jax-libraries $setup_jax_libraries_packages &&
        setup_locked setup_install_frameworks "$base" tensorflow $setup_tensorflow_packages &&
        setup_locked setup_install_frameworks "$base" paddle $setup_paddle_packages &&
        setup_locked setup_install_llama "$base"
}

setup_job_launchers() {
    local base
    base=$(setup_base_python) && setup_locked setup_install_frameworks "$base" launchers $setup_job_launchers_packages
}

setup_sharded_trainers() {
    local base
    base=$(setup_base_python) && setup_locked setup_install_frameworks "$base" sharded $setup_sharded_trainers_packages
}

setup_paddle_gpu() {
    local base
    base=$(setup_base_python) && setup_locked setup_install_frameworks "$base" paddle-gpu $setup_paddle_gpu_packages
}

setup_megengine() {
    local python
    for python in python3.10 "$HOME"/.pyenv/versions/3.10.*/bin/python; do
        "$python" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null || continue
        setup_locked setup_install_frameworks "$python" megengine $setup_megengine_packages
        return
    done
    setup_say "MegEngine's wheels need Python 3.10 with its venv module; none was found"
    return 1
}

setup_install_llama() {
    local packages
    setup_install_frameworks "$1" llama $setup_llama_packages || return 1
    packages=$(echo "$VRAMTRACE_CACHE"/venv-llama/lib/python3.*/site-packages)
    [ -e "$packages/cyllama_cuda12-${setup_llama_wheel#*==}.dist-info" ] && return 0
    setup_say "installing $setup_llama_wheel beside them"
    timeout 600 "$VRAMTRACE_CACHE/venv-llama/bin/python" -m pip install -q --disable-pip-version-check --no-deps --upgrade --ignore-requires-python \
        --target "$packages" --only-binary :all: --python-version 3.12 --platform manylinux_2_35_x86_64 "$setup_llama_wheel" >&2
}

setup_install_frameworks() { # PYTHON NAME PACKAGE...
    local python=$1 folder=$VRAMTRACE_CACHE/venv-$2
    shift 2
    [ "$(cat "$folder/.packages" 2>/dev/null)" = "$*" ] && return 0
    [ -x "$folder/bin/python" ] || "$python" -m venv "$folder" >&2 || return 1
    setup_say "installing $* into $folder"
    timeout 1800 "$folder/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$@" >&2 || return 1
    printf '%s' "$*" >"$folder/.packages"
}

setup_install_new_torch() { # PYTHON_VERSION FOLDER TORCH_VERSION
    local pip
    pip=$(ls "$setup_pythons_folder"/usr/share/python-wheels/pip-*.whl) || return 1
    setup_say "installing PyTorch $3 for Python $1 into $2"
    "$setup_pythons_folder/usr/bin/python$1" -m venv --without-pip "$2" >&2 &&
        PYTHONPATH=$pip timeout 600 "$2/bin/python" -m pip install -q --no-cache-dir --no-deps "torch==$3" >&2 &&
        PYTHONPATH=$pip timeout 300 "$2/bin/python" -m pip install -q ${setup_python_packages% pillow pytest} 2>&1 |
        grep -v 'dependency resolver\|^torch .* requires' >&2
    "$2/bin/python" -c 'import importlib.util as u, sys
sys.exit(any(u.find_spec(name) is None for name in "torch numpy sympy".split()))' || {
        setup_say "PyTorch $3 is not to be had for Python $1"
        return 1
    }
    touch "$2/.done"
}

setup_packaging() {
    local base missing
    if command -v dpkg-query >/dev/null; then
        missing=$(setup_not_installed $setup_shells)
        [ -z "$missing" ] || setup_install $missing || setup_say "their completions are not tested:$missing"
    fi
    setup_packaging_venv=$VRAMTRACE_CACHE/venv-packaging
    if [ "$(cat "$setup_packaging_venv/.packaging" 2>/dev/null)" != "$setup_packaging_packages" ]; then
        base=$(setup_base_python) && setup_locked setup_install_packaging "$base" || return 1
    fi
    export VRAMTRACE_PACKAGING=$setup_packaging_venv/bin/python
}

setup_install_packaging() {
    [ -x "$setup_packaging_venv/bin/python" ] || "$1" -m venv "$setup_packaging_venv" >&2 || return 1
    setup_say "installing $setup_packaging_packages into $setup_packaging_venv"
    "$setup_packaging_venv/bin/python" -m pip install -q --disable-pip-version-check $setup_packaging_packages >&2 || {
        setup_say "could not install them: the wheel is not tested"
        return 1
    }
    printf '%s' "$setup_packaging_packages" >"$setup_packaging_venv/.packaging"
}

setup_pytest() {
    local python base
    for python in ${VRAMTRACE_PYTHON:-} python3 "$VRAMTRACE_CACHE"/venv-*/bin/python; do
        if "$python" -c 'import pytest' 2>/dev/null; then
            export VRAMTRACE_PYTHON=$python
            return 0
        fi
    done
    base=$(setup_base_python) || return 1
    setup_say "installing pytest into $VRAMTRACE_CACHE/venv-pytest"
    mkdir -p "$VRAMTRACE_CACHE"
    "$base" -m venv "$VRAMTRACE_CACHE/venv-pytest" >&2 &&
        "$VRAMTRACE_CACHE/venv-pytest/bin/python" -m pip install -q --disable-pip-version-check pytest >&2 || {
        setup_say "could not install pytest (PyPI; Debian: apt install python3-venv)"
        return 1
    }
    export VRAMTRACE_PYTHON=$VRAMTRACE_CACHE/venv-pytest/bin/python
}

# One process of tests per core, a file of tests in one process; one process where the plugin cannot be had.
setup_workers() {
    setup_workers=()
    "$VRAMTRACE_PYTHON" -c 'import xdist' 2>/dev/null ||
        setup_locked "$VRAMTRACE_PYTHON" -m pip install -q --disable-pip-version-check pytest-xdist==3.8.0 >&2 || {
        setup_say "no pytest-xdist: the tests run one after the other"
        return 0
    }
    setup_workers=(-n "$(nproc)" --dist loadfile)
}

setup_trainers() {
    setup_torch || return 1
    [ "$(cat "$setup_venv/.tests" 2>/dev/null)" = "$(setup_all_trainers)" ] || setup_locked setup_install_trainers
}

setup_all_trainers() { echo $setup_torchvision $setup_trainers_packages $setup_data_packages $setup_python_packages; }

setup_install_trainers() {
    [ "$(cat "$setup_venv/.tests" 2>/dev/null)" = "$(setup_all_trainers)" ] && return 0
    # Without their dependencies: the NVIDIA packages among them are what the simulated CUDA replaces.
    setup_pip "downloading transformers, peft, accelerate, lightning, diffusers, triton and torchvision into $setup_venv" \
        install --no-deps $setup_torchvision $setup_trainers_packages $setup_data_packages &&
        setup_pip "downloading pytest and what PyTorch may need into $setup_venv" install $setup_python_packages || {
        setup_say "the tests with the real PyTorch cannot run"
        return 1
    }
    setup_all_trainers >"$setup_venv/.tests"
}

setup_torch_of() { # VERSION
    setup_venv=$VRAMTRACE_CACHE/venv-torch-$1
    [ -e "$setup_venv/.done" ] || setup_locked setup_install_torch_of "$1" || return 1
    VRAMTRACE_PYTHON=$setup_venv/bin/python
    export VRAMTRACE_PYTHON
}

setup_install_torch_of() { # VERSION
    local base minor numpy=numpy triton
    [ ! -e "$setup_venv/.done" ] || return 0
    IFS=. read -r _ minor _ <<<"$1"
    [ "$minor" -ge 3 ] || numpy='numpy<2'
    [ -x "$setup_venv/bin/python" ] || { base=$(setup_base_python) && "$base" -m venv "$setup_venv" >&2; } || return 1
    setup_pip "downloading what PyTorch $1 may need into $setup_venv" install ${setup_python_packages/numpy/$numpy} &&
        setup_pip "downloading PyTorch $1 into $setup_venv" install --no-compile --no-cache-dir --no-deps "torch==$1" || return 1
    # The newest PyTorch may have no torchvision of its own yet. Triton is the one that this PyTorch asks for.
    setup_pip "downloading its torchvision" install --no-deps "torchvision==0.$((minor + 15)).*" ||
        setup_pip "downloading a torchvision" install --no-deps torchvision || return 1
    triton=$("$setup_venv/bin/python" -c 'import importlib.metadata as m, re
print(*(re.sub("[ ()]", "", each.partition(";")[0]) for each in m.requires("torch") if each.startswith("triton")))')
    setup_pip "downloading what people train with" install --no-deps $(sed "s/triton==[^ ]*/$triton/" <<<$setup_trainers_packages) &&
        touch "$setup_venv/.done"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    set -u
    [ $# -gt 0 ] || set -- setup_test_packages setup_cuda_headers setup_trainers
    setup_main "$0" "$@"
fi
