// The options of an agent as flags, environment variables and lines of a file: one table for every
// binary (rpc/base/options.h).
//
//   AgentOptions agent;
//   OptionTable table;
//   AddAgentOptions(table, &agent);
//   GW_ASSIGN_OR_RETURN(ParsedArguments parsed, table.Parse(arguments, ProcessEnvironment(), fs));
//
// What the options mean: rpc/agent.h and rpc/agent/limits.h. Their values when the rows are added
// are the defaults that --help shows. AgentOptions::job is --job-id: --job names the program that a
// worker trains.
#pragma once

#include "rpc/agent.h"
#include "rpc/base/options.h"

namespace gradwire::rpc {

// `options` must outlive the table.
void AddAgentOptions(OptionTable& table, AgentOptions* options);

}  // namespace gradwire::rpc
