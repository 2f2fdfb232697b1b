"""What a result folder gives: `run.Run`, the folder as Python sees it; its summary, before and after it is reduced;
`document`, what other programs read of it; and `support_bundle`, one zip file of it to attach to a question, without
secrets."""
