/* Loaded under the name of a driver for devices, it makes a process look like one that may keep buffers
   in device memory. */
int cuInit(unsigned flags);

int cuInit(unsigned flags) {
    return flags != 0;
}
