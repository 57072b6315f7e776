//! ZCL1.
