"""Every check, in the order in which a person would go through them. A new one is a file, and a line here."""

from arcops.doctor.checks.card_health import CARD_HEALTH
from arcops.doctor.checks.cards import DRIVER, RENDER_NODE
from arcops.doctor.checks.configuration import CONFIGURATION
from arcops.doctor.checks.disk import DISK
from arcops.doctor.checks.exposure import EXPOSURE
from arcops.doctor.checks.groups import GROUPS
from arcops.doctor.checks.holders import CARD_HOLDERS, PORT
from arcops.doctor.checks.kernel_log import KERNEL_LOG
from arcops.doctor.checks.lingering import LINGERING
from arcops.doctor.checks.others import OTHERS
from arcops.doctor.checks.residue import RESIDUE
from arcops.doctor.checks.runtime import RUNTIME
from arcops.doctor.checks.service import SERVICE
from arcops.doctor.checks.session import SESSION, VERSIONS
from arcops.doctor.checks.unit import UNIT
from arcops.doctor.run import Check

CHECKS: tuple[Check, ...] = (
    VERSIONS,
    SESSION,
    LINGERING,
    UNIT,
    SERVICE,
    CONFIGURATION,
    RUNTIME,
    RENDER_NODE,
    GROUPS,
    DRIVER,
    CARD_HOLDERS,
    CARD_HEALTH,
    PORT,
    OTHERS,
    RESIDUE,
    EXPOSURE,
    DISK,
    KERNEL_LOG,
)
