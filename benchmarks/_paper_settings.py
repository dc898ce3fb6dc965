"""The choices of Algorithm 1 that NIMO's paper makes (VLDB 2006, table 1)."""

from msgspec.structs import replace

from predictor.occupancy.active.settings import (
    Error,
    FunctionForm,
    LearnerSettings,
    OccupancyPart,
    Reference,
    RefinementOrder,
    Selection,
    Traversal,
)

#: The defaults of table 1, to the letter: Algorithm 1 with linear functions of predetermined
#: transformations.  Its experiments take the data flow as given (section 4.1).
PAPER = LearnerSettings(
    reference=Reference.MIN,
    order=RefinementOrder.RELEVANCE,
    attribute_order=RefinementOrder.RELEVANCE,
    traversal=Traversal.ROUND_ROBIN,
    selection=Selection.LMAX_I1,
    error=Error.CROSS_VALIDATION,
    form=FunctionForm.PAPER,
    in_a_row=1,
)
#: The same as in the experiments, where the data flow is given.
EXPERIMENT = replace(
    PAPER, parts=(OccupancyPart.COMPUTE, OccupancyPart.NETWORK, OccupancyPart.DISK)
)
