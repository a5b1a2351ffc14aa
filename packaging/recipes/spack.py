# SPDX-License-Identifier: BSD-3-Clause
"""pml tm as a part of Spack's openmpi: spack install openmpi+pml_tm

Put this file beside the package.py of openmpi, as pml_tm.py, import PmlTm from it there, and make
it the first base class: class Openmpi(PmlTm, AutotoolsPackage, ...). The variable PML_TM names the
sources of pml_tm: a checkout, or a release archive that was unpacked.
"""

import os

from spack.package import *


class PmlTm(PackageBase):
    variant(
        "pml_tm",
        default=False,
        when="@4.1:4.1,5.0:5.0,6.0:6.0",
        description="Build the PML tm and the BTL fabric",
    )

    with when("+pml_tm"):
        depends_on("autoconf", type="build")
        depends_on("automake", type="build")
        depends_on("libtool", type="build")
        depends_on("m4", type="build")
        depends_on("perl", type="build")
        conflicts("+static", msg="pml tm is a plug-in")

    @property
    def force_autoreconf(self):
        return self.spec.satisfies("+pml_tm")

    @run_before("autoreconf", when="+pml_tm")
    def add_pml_tm(self):
        into_openmpi = os.path.join(os.environ["PML_TM"], "packaging", "into_openmpi")
        Executable(into_openmpi)(self.stage.source_path)

    @when("+pml_tm")
    def autoreconf(self, spec, prefix):
        Executable("./autogen.pl")("--force")
