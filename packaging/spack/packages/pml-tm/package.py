# SPDX-License-Identifier: BSD-3-Clause
try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
except ImportError:
    pass  # before Spack 1.0 it comes with the next line

from spack.package import *


class PmlTm(AutotoolsPackage):
    """Point-to-point messages for Open MPI with O(1) tag matching: mpirun --mca pml tm.

    It is compiled with headers that Spack's own openmpi lacks: take an external one that was
    configured --with-devel-headers, or packaging/recipes/spack.py instead of this package.
    """

    license("BSD-3-Clause")

    # From a checkout: spack develop -p . pml-tm@main
    version("main")

    variant("ofi", default=False, description="Slingshot, EFA and Omni-Path, by libfabric")
    variant("otf2", default=False, description="tm_trace writes OTF2 archives")
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
    depends_on("otf2@3:", when="+otf2")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        args = [f"--with-ompi={self.spec['openmpi'].prefix}"] + self.with_or_without("verbs")
        return args + self.with_or_without("libfabric", variant="ofi")

    def setup_run_environment(self, env):
        # What share/pml_tm/env.sh does.
        env.set(
            "OMPI_MCA_mca_base_component_path",
            f"{self.prefix.lib.openmpi}:SYS_DEFAULT:USER_DEFAULT",
        )
