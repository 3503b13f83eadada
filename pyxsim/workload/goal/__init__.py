"""GOAL, the schedules of LogGOPSim and ATLAHS: text and binary, read and written (docs/workloads_goal.md)."""

from pyxsim.workload.goal.binary_form import MAGIC as MAGIC
from pyxsim.workload.goal.binary_form import write_binary as write_binary
from pyxsim.workload.goal.files import ENDINGS as ENDINGS
from pyxsim.workload.goal.files import is_goal as is_goal
from pyxsim.workload.goal.files import read_goal as read_goal
from pyxsim.workload.goal.files import write_goal as write_goal
from pyxsim.workload.goal.schedule import ANY as ANY
from pyxsim.workload.goal.schedule import Op as Op
from pyxsim.workload.goal.schedule import Rank as Rank
from pyxsim.workload.goal.schedule import Schedule as Schedule
from pyxsim.workload.goal.text_form import write_text as write_text
