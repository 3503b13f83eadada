import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

def levels(ptr: I64, before: I64, weight: I64) -> tuple[I64, I64]: ...
