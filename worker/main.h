// gradwire::Main: the main function of a program that has every role.
//
//   int main(int argc, char** argv) { return gradwire::Main(argc, argv); }
//
//   my_app ps …                  a parameter server; it serves the functions of GW_FUNCTION, too
//   my_app worker --job=NAME …   a worker that runs GW_JOB(NAME, …)
//
// Each has --help. Exit status: 0; 1 with one line on stderr that says what is wrong.
#pragma once

#include <string>

namespace gradwire {

// `default_role`: of a call whose first argument names none.
int Main(int argc, char** argv, const std::string& default_role = "worker");

}  // namespace gradwire
