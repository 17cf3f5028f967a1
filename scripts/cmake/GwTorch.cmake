# libtorch for CPUs: the imported target gradwire_torch = libtorch_cpu and libc10 alone. Included by the build and by
# an installed find_package(Gradwire).
#
# Where: the variable GW_DEPS_DIR, else the environment's, else where the build had it, else .deps (scripts/setup).
# The wheel's headers come last (-idirafter), since they ship an old google/protobuf.
if(TARGET gradwire_torch)
  return()
endif()
set(GW_DEPS_DIR "$ENV{GW_DEPS_DIR}" CACHE PATH "Where scripts/setup put libtorch")
if(NOT GW_DEPS_DIR)
  if(Gradwire_BUILD_DEPS_DIR)
    set(GW_DEPS_DIR "${Gradwire_BUILD_DEPS_DIR}" CACHE PATH "" FORCE)
  else()
    set(GW_DEPS_DIR "${CMAKE_SOURCE_DIR}/.deps" CACHE PATH "" FORCE)
  endif()
endif()
set(gw_torch "${GW_DEPS_DIR}/torch")
if(NOT EXISTS "${gw_torch}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch is not in ${GW_DEPS_DIR}: run scripts/setup first, or configure with -DGW_WITH_TORCH=OFF")
endif()
add_library(gradwire_torch INTERFACE IMPORTED GLOBAL)
target_compile_options(gradwire_torch INTERFACE "SHELL:-idirafter ${gw_torch}/include")
target_compile_definitions(gradwire_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_libraries(gradwire_torch INTERFACE "${gw_torch}/lib/libtorch_cpu.so" "${gw_torch}/lib/libc10.so")
target_link_options(gradwire_torch INTERFACE
  "-Wl,-rpath,${gw_torch}/lib" "-Wl,-rpath,${GW_DEPS_DIR}/nvidia/cu13/lib"
  "-Wl,-rpath-link,${GW_DEPS_DIR}/nvidia/cu13/lib")
# What needs torch/torch.h, torch/nn or torch/optim adds this one (models in tests and jobs only).
add_library(gradwire_torch_api INTERFACE IMPORTED GLOBAL)
target_compile_options(gradwire_torch_api INTERFACE "SHELL:-idirafter ${gw_torch}/include/torch/csrc/api/include")
target_link_libraries(gradwire_torch_api INTERFACE gradwire_torch)
