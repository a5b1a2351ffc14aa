#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# TEST: timeout=60 needs=python3
#
# The additions to recipes of others that make Open MPI with pml tm in it (packaging/recipes):
# Spack's runs with a stand-in for Spack's directives, EasyBuild's is executed as EasyBuild does,
# and its command is run; conda's is parsed. None of the three systems is here. The options that
# Spack's package of pml tm alone gives to configure are those that it has.  Each library that
# configure looks for is in all packages, or packaging/README says that it is left out.
. "$TM_SRC/test/lib/script.sh"
recipes=$TM_SRC/packaging/recipes
package=$TM_SRC/packaging/spack/spack_repo/pml_tm/packages/pml_tm/package.py

# Headers of libraries, and the packages of Debian, of Fedora, and of Spack that have them.
libraries='
    hwloc.h             libhwloc-dev        hwloc-devel         hwloc
    infiniband/*        libibverbs-dev      rdma-core-devel     rdma-core
    rdma/rdma_cma.h     librdmacm-dev       rdma-core-devel     rdma-core
    rdma/f*             libfabric-dev       libfabric-devel     libfabric
    sys/sdt.h           systemtap-sdt-dev   systemtap-sdt-devel -'

build_depends=$(sed -n '/^Build-Depends/,/^[^ B]/p' "$TM_SRC/debian/control" | tr -s ' ,' '\n')

# is_packaged HEADER
is_packaged()
{
    local pattern deb rpm spack
    while read -r pattern deb rpm spack; do
        # shellcheck disable=SC2053 # it is a pattern
        [[ $1 == $pattern ]] || continue
        grep -qx "$deb" <<<"$build_depends" || fail "debian/control has no $deb, for <$1>"
        require "BuildRequires:  $rpm" "$TM_SRC/packaging/pml-tm.spec"
        if [[ $spack == - ]]; then
            require "Spack and the recipes for Open MPI's own source have no <$1>" \
                "$TM_SRC/packaging/README"
        else
            grep -qE "depends_on\(\"${spack}[@\"]" "$package" ||
                fail "Spack's has no $spack, for <$1>"
        fi
        return
    done <<<"$libraries"
    fail "<$1> is in no package that is named here"
}
headers=$(
    sed -nE -e 's/.*AC_CHECK_HEADER\(\[([^]]*)\].*/\1/p' -e 's/.*#include <([^>]*)>.*/\1/p' \
        "$TM_SRC/configure.m4"
    grep -rhoE '__has_include\(<[^>]*' "$TM_SRC"/{btl_fabric,common,pml_tm,tools} | sed 's/.*<//'
)
while read -r header; do
    [[ $header == stdio.h ]] || is_packaged "$header"
done < <(sort -u <<<"$headers")

# tree NAME: what looks like Open MPI's source, as far as into_openmpi and autogen.pl matter.
tree()
{
    mkdir -p "$1/ompi/mca/pml"
    printf '#!/bin/sh\necho "$@" >autogen.args\n' >"$1/autogen.pl"
    chmod +x "$1/autogen.pl"
    printf '#!/bin/sh\n: >configured\n' >"$1/configure"
    chmod +x "$1/configure"
}

# expect_tree NAME: pml tm is in it, and autogen.pl was called.
expect_tree()
{
    [[ -f $1/ompi/mca/pml/tm/configure.m4 ]] || fail "$1: into_openmpi was not run"
    require '--force' "$1/autogen.args"
}

tree spack
mkdir -p modules/spack modules/spack_repo/builtin/build_systems
touch modules/spack/__init__.py modules/spack_repo/{,builtin/{,build_systems/}}__init__.py
echo 'from spack.package import AutotoolsPackage' \
    >modules/spack_repo/builtin/build_systems/autotools.py
cat >modules/spack/package.py <<'END'
import contextlib, os, subprocess

said = []


class PackageBase:
    pass


class AutotoolsPackage(PackageBase):
    def with_or_without(self, name, variant=None):
        return [f"--with-{name}", f"--without-{name}"]


def license(name):
    pass


def version(name, branch):
    pass


def maintainers(name):
    pass


def variant(name, default, description, when=None):
    said.append(f"variant {name} {when}")


def depends_on(name, type=None, when=None):
    said.append(f"depends_on {name} {type}")


def conflicts(spec, msg):
    said.append(f"conflicts {spec}")


class when(contextlib.AbstractContextManager):
    def __init__(self, spec):
        self.spec = spec

    def __exit__(self, *args):
        pass

    def __call__(self, method):
        return method


def run_before(phase, when):
    return lambda method: method


def Executable(path):
    return lambda *args: subprocess.run([path, *args], check=True)
END
cat >run_spack.py <<'END'
import importlib.util, os, sys, types

spec = importlib.util.spec_from_file_location("recipe", sys.argv[1])
recipe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe)
package = recipe.PmlTm()
package.spec = types.SimpleNamespace(satisfies=lambda spec: "+pml_tm" == spec)
package.stage = types.SimpleNamespace(source_path=os.getcwd() + "/spack")
assert package.force_autoreconf
package.add_pml_tm()
os.chdir("spack")
package.autoreconf(package.spec, None)
sys.modules["spack.package"].said.append("done")
print("\n".join(sys.modules["spack.package"].said))
END
export PML_TM=$TM_SRC PYTHONPATH=$PWD/modules
python3 -B run_spack.py "$recipes/spack.py" >spack.log 2>&1 || {
    cat spack.log
    fail "Spack's"
}
require 'variant pml_tm @4.1:4.1,5.0:5.0,6.0:6.0' spack.log
require 'done' spack.log
expect_tree spack

# Spack's package of pml tm alone: configure knows the options that it gives.
python3 -B - "$package" >spack.options <<'END' || fail "Spack's package"
import importlib.util, sys, types

spec = importlib.util.spec_from_file_location("package", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
package = module.PmlTm()
package.spec = {"openmpi": types.SimpleNamespace(prefix="/openmpi")}
print("\n".join(package.configure_args()))


class Directory(str):
    def __getattr__(self, name):
        return Directory(f"{self}/{name}")


class Spec(dict):
    def satisfies(self, spec):
        return "^openmpi@5:" == spec


settings = {}
package.prefix = Directory("/prefix")
package.spec = Spec(pmix=types.SimpleNamespace(prefix=Directory("/pmix")))
package.setup_run_environment(types.SimpleNamespace(set=settings.__setitem__))
assert settings == {
    "OMPI_MCA_mca_base_component_path": "/prefix/lib/openmpi:SYS_DEFAULT:USER_DEFAULT",
    "PMIX_MCA_mca_base_component_path": "/pmix/lib/pmix",
}, settings
for name in ("homepage", "url", "git"):
    assert getattr(package, name), name
END
require '--with-ompi=/openmpi' spack.options
# The layout of api v2: a directory of Python modules, spack_repo/NAMESPACE/packages/NAME.
[[ ${package%/packages/*} == */spack_repo/pml_tm ]] || fail "Spack's repository has another layout"
require 'namespace: pml_tm' "${package%/packages/*}/repo.yaml"
require 'api: v2.0' "${package%/packages/*}/repo.yaml"
while IFS='=' read -r option _; do
    grep -qF "AC_ARG_WITH([${option#--with*-}]" "$TM_SRC/configure.m4" ||
        fail "pml-tm: configure has no $option"
done <spack.options

tree easybuild
python3 -B - "$recipes"/*.eb "$TM_SRC" >easybuild.command <<'END' || fail "EasyBuild's"
import os, sys

config = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), config)
toolchain = config["toolchain"]
# EasyBuild finds a file by this name
name = "{name}-{version}-{compiler}-{release}{versionsuffix}.eb".format(
    compiler=toolchain["name"], release=toolchain["version"], **config)
assert name == os.path.basename(sys.argv[1]), name
for needed in ("homepage", "description", "sources", "moduleclass"):
    assert config[needed], needed
print(config["preconfigopts"].replace("../" + config["local_pml_tm"], sys.argv[2]) + "./configure")
END
(cd easybuild && sh -e ../easybuild.command)
expect_tree easybuild
[[ -f easybuild/configured ]] || fail "EasyBuild's configure was not reached"

if ! python3 -c 'import yaml' 2>/dev/null; then
    skip "conda's recipe: Python has no module yaml (package python3-yaml); the others are right"
fi
python3 -B - "$recipes/conda.yaml" >conda.files <<'END' || fail "conda's"
import sys, yaml

recipe = yaml.safe_load(open(sys.argv[1]))
assert "pml_tm" == recipe["source"][0]["target_directory"]
for part in ("package", "source", "build", "requirements", "tests", "about"):
    assert recipe[part], part
for option in " ".join(recipe["build"]["script"]).split():
    assert not option.startswith("--with-") or option.split("=")[0] in (
        "--with-ompi", "--with-ompi-source", "--with-componentdir"), option
print("\n".join(recipe["tests"][0]["package_contents"]["files"]["exists"]))
END
# What the build for this Open MPI installs; two files of it only where a library is.
while read -r file; do
    compgen -G "$TM_PREFIX/$file" >/dev/null || [[ $file == *_@(ofi|verbs)-* ]] ||
        fail "conda's: the build installs no $file"
done <conda.files
for file in "$TM_PREFIX"/lib/lib*.so "$TM_PREFIX"/lib/openmpi/*.so; do
    while read -r pattern; do
        # shellcheck disable=SC2053 # it is a pattern
        [[ $file != $TM_PREFIX/$pattern ]] || continue 2
    done <conda.files
    fail "conda's: its list lacks $file"
done
