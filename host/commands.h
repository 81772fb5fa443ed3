/*
 * host/commands.h - the subcommands of `pawl`, one cmd_*.c each.
 *
 * Each takes its own argv (argv[0] is the subcommand's name), parses its options
 * and calls what does the work. The result is the process's exit status: 0 done,
 * 1 it failed, 2 it was called wrongly. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_COMMANDS_H
#define HOST_COMMANDS_H

int cmd_serve(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_model(int argc, char **argv);
int cmd_store(int argc, char **argv);
int cmd_key(int argc, char **argv);
int cmd_plugin(int argc, char **argv);

#endif /* HOST_COMMANDS_H */
