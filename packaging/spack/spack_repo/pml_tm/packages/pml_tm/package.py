# SPDX-License-Identifier: BSD-3-Clause
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class PmlTm(AutotoolsPackage):
    """Point-to-point messages for Open MPI with O(1) tag matching: mpirun --mca pml tm.

    It is compiled with headers that Spack's own openmpi lacks: take an external one that was
    configured --with-devel-headers, or packaging/recipes/spack.py instead of this package.
    """

    # To be filled in at the release.
    homepage = "https://pml-tm.invalid"
    url = "https://pml-tm.invalid/pml_tm-0.1.0.tar.gz"
    git = "https://pml-tm.invalid/pml_tm.git"
    maintainers("pml-tm")

    license("BSD-3-Clause")

    # version("0.1.0", sha256="...")
    version("main", branch="main")  # in a checkout: spack dev-build pml-tm@main

    variant("ofi", default=False, description="Slingshot, EFA and Omni-Path, by libfabric")
    variant("verbs", default=True, description="InfiniBand, RoCE and iWARP")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:4.1,5.0:5.0,6.0:6.0")
    depends_on("hwloc")
    depends_on("pmix")
    depends_on("rdma-core@35:", when="+verbs")
    depends_on("libfabric@1.15:", when="+ofi")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        args = [f"--with-ompi={self.spec['openmpi'].prefix}"] + self.with_or_without("verbs")
        return args + self.with_or_without("libfabric", variant="ofi")

    def setup_run_environment(self, env):
        # What share/pml_tm/env.sh does; Spack itself sets PATH and MANPATH.
        env.set(
            "OMPI_MCA_mca_base_component_path",
            f"{self.prefix.lib.openmpi}:SYS_DEFAULT:USER_DEFAULT",
        )
        # Open MPI 5.0 hands that path on to PMIx, which has a directory of its own.
        if self.spec.satisfies("^openmpi@5:"):
            env.set("PMIX_MCA_mca_base_component_path", self.spec["pmix"].prefix.lib.pmix)
