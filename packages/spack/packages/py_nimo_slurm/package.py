from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyNimoSlurm(PythonPackage):
    """Predicts run times of Slurm jobs from history, and recommends node counts.

    Built from a checkout: spack dev-build py-nimo-slurm@0.3.0
    """

    homepage = "https://slurm.schedmd.com/job_submit_plugins.html"
    has_code = False
    license("MIT")

    version("0.3.0")

    variant("postgresql", default=False, description="Keep the store in PostgreSQL")
    variant("mariadb", default=False, description="Keep the store in MariaDB")
    variant("metrics", default=False, description="Export metrics to Prometheus")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-hatchling", type="build")
    depends_on("py-alembic@1.13:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-msgspec@0.18.6:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-pyyaml@6:", type=("build", "run"))
    depends_on("py-rich@13.7:", type=("build", "run"))
    depends_on("py-scipy@1.11:", type=("build", "run"))
    depends_on("py-sqlalchemy@2.0.25:", type=("build", "run"))
    depends_on("py-threadpoolctl@3.1:", type=("build", "run"))
    depends_on("py-psycopg@3.1:", type=("build", "run"), when="+postgresql")
    depends_on("py-pymysql@1.1:", type=("build", "run"), when="+mariadb")
    depends_on("py-prometheus-client@0.20:", type=("build", "run"), when="+metrics")
