// The `worker` binary: gradwire::Main with the built-in jobs. `ps` is the same with another role.
#include "worker/main.h"

#ifndef GW_DEFAULT_ROLE
#define GW_DEFAULT_ROLE "worker"
#endif

int main(int argc, char** argv) { return gradwire::Main(argc, argv, GW_DEFAULT_ROLE); }
