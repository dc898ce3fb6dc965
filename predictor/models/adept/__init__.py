"""ADEPT: Downey's model fitted within an envelope, for each target anew.

A. Deshmeh, J. Machina and A. Sodan, *ADEPT Scalability Predictor in Support of Adaptive Resource
Allocation*, IPDPS 2010.  Section numbers in this package are those of the paper.
"""

from predictor.models.adept.model import Adept, AdeptFit

__all__ = ["Adept", "AdeptFit"]
