#!/bin/sh
# as_conda.sh VENV PREFIX: a prefix laid out as conda lays it, from a virtual environment with PyTorch of PyPI: NVIDIA's libraries in
# PREFIX/lib, found by the RPATH of PyTorch's own, libcudnn by its full version, no nvidia-* packages. Files are hard links where they
# are not changed. Needs patchelf.
set -e
cp -al "$1" "$2"
site=$(echo "$2"/lib/python3.*/site-packages)
version=$(echo "$site"/nvidia_cudnn_*.dist-info | sed 's/.*-\([0-9]*\.[0-9]*\.[0-9]*\)[0-9.]*\.dist-info/\1/')
for folder in "$site"/nvidia/*/lib "$site"/cusparselt/lib; do
    [ ! -d "$folder" ] || find "$folder" -name "*.so*" -exec mv {} "$2/lib/" ";"
done
rm -rf "$site/nvidia" "$site"/nvidia_*
mv "$2/lib/libcudnn.so.9" "$2/lib/libcudnn.so.$version"
ln -s "libcudnn.so.$version" "$2/lib/libcudnn.so.9"
for library in "$site"/torch/lib/*.so; do
    cp "$library" "$library.own"
    patchelf --force-rpath --set-rpath '$ORIGIN:$ORIGIN/../../../..' "$library.own"
    mv "$library.own" "$library"
done
# A virtual environment's python is a link to another prefix; conda's is its own.
"$2/bin/python" -c 'import sys, torch; print(sys.prefix, torch.__version__, torch.version.cuda)'
