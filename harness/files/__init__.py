"""Files that the harness reads and writes: what each may contain, and the line that names what is wrong in it.

- `settings`: every setting, from options, environment and a file
- `lab_file`, `matrix_file`, `workload_file`: what a user writes in TOML: servers, cells, and what is sent; `matrices/`
  has the matrices of the package, `message_bodies` is the table `[body]` of a workload; `toml_file` reads them all
- `journal`, `manifest_file`: what became of each cell; the circumstances of a run; `json_file` checks both
- `records`: every field of the raw records in Parquet
- `document`: what a command found, for other programs
- `script_text`: files for sqlcmd: batches, and variables whose values end nothing that they stand in
"""
